// Where tokens are needed: who has none is asked for one, and who may only look changes nothing, here or past the page.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
let viewer: string;
let operator: string;
let order: string;
beforeAll(async () => {
  lab = await Lab.open();
  order = await lab.order("safe");
  [viewer, operator] = [lab.token("val", "viewer"), lab.token("ole", "operator")];
  await lab.stop();
  await lab.start();
});
afterAll(() => lab.close());

async function signIn(page: Page, token: string) {
  await page.getByRole("dialog", { name: "This server wants a token" }).waitFor();
  await page.getByRole("textbox", { name: "Token" }).fill(token);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
}

it("asks for a token, says when it is none, and shows what it opens", async () => {
  const page = await lab.page(`/runs?q=${order}`);
  // Who closes the dialog finds a way back to it.
  await page.getByRole("dialog", { name: "This server wants a token" }).waitFor();
  await page.keyboard.press("Escape");
  // Nor is it opened again by whatever else the server refuses: what was asked for meanwhile, and every now and then.
  await page.getByRole("button", { name: "Live updates: polling" }).waitFor();
  await page.waitForResponse((answer) => answer.status() === 401);
  expect(await page.getByRole("dialog").count()).toBe(0);
  await page.locator("main").getByRole("button", { name: "Sign in…" }).first().click();
  await page.getByRole("textbox", { name: "Token" }).fill("nonsense");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await signIn(page, operator);
  await page.locator(`a[href="/runs/${order}"]`).waitFor();
  await page.getByRole("button", { name: "Act on all…" }).waitFor();
  // It outlasts the page, and no script sees it.
  await page.reload();
  await page.locator(`a[href="/runs/${order}"]`).waitFor();
  expect(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }))).not.toContain(operator);
  await page.goto(`${lab.url}/system`);
  await page.getByRole("button", { name: "Check again" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("dialog", { name: "This server wants a token" }).waitFor();
});

it("lets whoever starts a server for the first time in by the address that it prints, once", async () => {
  const first = await Lab.open("guarded");
  try {
    await expect.poll(() => first.said).toContain("#ticket=");
    const [ticket] = /#ticket=[\w-]+/.exec(first.said)!;
    const page = await first.page(`/${ticket}`);
    await page.getByRole("button", { name: "Live updates: live" }).waitFor();
    expect(page.url()).not.toContain("ticket");
    await page.goto(`${first.url}/system`);
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    // Somebody else comes too late.
    const other = await first.page(`/${ticket}`);
    await other.getByRole("dialog", { name: "This server wants a token" }).waitFor();
    expect(other.url()).not.toContain("ticket");
  } finally {
    await first.close();
  }
});

it("trap 6: a viewer sees no buttons, and the API refuses whoever asks without them", async () => {
  const page = await lab.page(`/runs?q=${order}`);
  await signIn(page, viewer);
  await page.locator(`a[href="/runs/${order}"]`).waitFor();
  await page.getByText("read-only").waitFor();
  expect(await page.getByRole("button", { name: /^Act on/ }).count()).toBe(0);
  expect(await page.getByRole("checkbox", { name: /^Select/ }).count()).toBe(0);
  await page.locator(`a[href="/runs/${order}"]`).click();
  await page.getByText("waiting for event approval").waitFor();
  expect(await page.getByRole("button", { name: /…$/ }).count()).toBe(0);
  await page.getByRole("link", { name: "Queues", exact: true }).first().click();
  await page.getByRole("link", { name: "stock", exact: true }).click();
  await page.locator("h1", { hasText: "stock" }).waitFor();
  expect(await page.getByRole("button", { name: /pause|drain|Limits|Purge/i }).count()).toBe(0);

  const attempts: [string, unknown][] = [
    [`/runs/${order}/cancel`, {}], [`/runs/${order}/kill`, { reason: "x" }], [`/runs/${order}/events`, { name: "approval", data: { by: "val", ok: true } }], [`/runs/${order}/fork`, { from_start: true }],
    ["/runs", { definition: "order", input: {} }], ["/queues/stock/pause", {}], ["/schedules/stock-check/trigger", {}], ["/bulk", { op: "cancel", filter: "def:order", reason: "x" }],
  ];
  for (const [path, body] of attempts) expect((await lab.ask(path, body, viewer)).status, path).toBe(403);
  expect((await lab.ask(`/runs/${order}/cancel`, {})).status, "without a token").toBe(401);
  expect(await lab.api<{ status: string }>(`/runs/${order}`, undefined, viewer)).toMatchObject({ status: "waiting" });
});
