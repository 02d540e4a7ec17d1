// Whoever is bound to a tenant or to queues: they see that, are offered nothing that is always refused, and can leave.
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
let [ofTenant, ofQueue]: string[] = [];
beforeAll(async () => {
  lab = await Lab.open();
  [ofTenant, ofQueue] = [lab.token("tina", "operator", "--tenant", "acme"), lab.token("quinn", "viewer", "--queue", "stock")];
  await lab.stop();
  await lab.start();
});
afterAll(() => lab.close());

/// A browser of whom a token stands for, and what the server refused it.
async function signedIn(token: string): Promise<{ context: BrowserContext; refused: string[] }> {
  const context = await lab.somebody();
  const answer = await context.request.post(`${lab.url}/api/v1/session`, { data: { token }, headers: { origin: lab.url } });
  expect(answer.ok()).toBe(true);
  const refused: string[] = [];
  context.on("response", (answer) => answer.status() === 403 && refused.push(answer.url()));
  return { context, refused };
}

function pages(page: Page): Promise<string[]> {
  return page.getByRole("navigation", { name: "Pages" }).getByRole("link").evaluateAll((links) => links.map((link) => link.getAttribute("aria-label")!));
}

it("offers a token of one tenant no pages of all of them, says whose it is, and asks for nothing that is refused", async () => {
  const { context, refused } = await signedIn(ofTenant!);
  const page = await lab.page("/", "light", context);
  await page.getByRole("banner").getByText("tenant acme", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Failures" }).waitFor();
  expect(await pages(page)).toEqual(["Overview", "Runs", "Errors", "Schedules", "Definitions", "Bulk"]);
  // What nobody looked up is not said to be nothing.
  await page.getByRole("link", { name: /^Oldest queued/ }).getByText("not known").waitFor();
  expect(await page.locator("main").getByText(/No queue has rules|due and not taken/).count()).toBe(0);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Jump to" }).fill("Nodes");
  await page.getByRole("option", { name: /runs with this key/ }).waitFor();
  expect(await page.getByRole("option", { name: /page$/ }).count()).toBe(0);
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Definitions", exact: true }).click();
  await page.getByRole("link", { name: "trip", exact: true }).click();
  await page.getByRole("heading", { name: "Last runs" }).waitFor();
  expect(refused).toEqual([]);
});

it("offers a token of some queues those alone, and asks for nothing that is refused", async () => {
  const { context, refused } = await signedIn(ofQueue!);
  const page = await lab.page("/", "light", context);
  await page.getByRole("banner").getByText("read-only, queue stock", { exact: true }).waitFor();
  await page.locator("main").getByRole("link", { name: "stock", exact: true }).waitFor();
  expect(await pages(page)).toEqual(["Overview", "Runs", "Queues", "Definitions"]);
  expect(await page.getByText("Nothing failed").count()).toBe(0);
  await page.locator("main").getByRole("link", { name: "stock", exact: true }).click();
  await page.locator("h1", { hasText: "stock" }).waitFor();
  expect(refused).toEqual([]);
});

it("lets whoever is bound sign out, and says what is refused where they go by an address", async () => {
  const { context } = await signedIn(ofTenant!);
  const page = await lab.page("/nodes", "light", context);
  await page.getByRole("alert").getByText(/a token of one tenant may not/).waitFor();
  expect(await page.getByText("No node is up").count()).toBe(0);
  await page.goto(`${lab.url}/system`);
  await page.getByRole("alert").getByText(/a token of one tenant may not/).waitFor();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  await page.goto(`${lab.url}/settings`);
  await page.getByText("tina, operator, bound to tenant acme", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("dialog", { name: "This server wants a token" }).waitFor();
  // What they were shown goes with them.
  await page.getByText("tina, operator").waitFor({ state: "detached" });
});

it("tells a viewer why System says less", async () => {
  const { context } = await signedIn(lab.token("val", "viewer"));
  const page = await lab.page("/system", "light", context);
  await page.getByText(/how much room its tables take is for operators/).waitFor();
});
