// Buttons that change something, pressed through to what becomes of it.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

/// Says why, and does it.
async function confirm(page: Page, action: string) {
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/Reason/).fill("a test wants it");
  await dialog.getByRole("button", { name: action, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
}

const state = (page: Page, word: string) => page.locator(`main [data-state=${word}]`).first().waitFor();

it("tries an undo that gave up again, and then kills the run", async () => {
  const id = await lab.run({ definition: "trip", input: "Atlantis" }, "undo_failed");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Retry undo…" }).click();
  await page.getByRole("dialog").getByText("What is undone stays so").waitFor();
  await confirm(page, "Retry undo");
  // Nobody takes that seat back this time either.
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("row").filter({ hasText: "from here on the run undoes what it did" }).waitFor();
  await page.getByRole("row").filter({ hasText: "operator" }).filter({ hasText: "a test wants it" }).waitFor();
  await expect.poll(() => page.getByRole("row").filter({ hasText: "it was the last" }).count()).toBe(2);
  await lab.until(id, "undo_failed");
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: "Kill…" }).click();
  await confirm(page, "Kill");
  await state(page, "cancelled");
  expect(await lab.api(`/runs/${id}`)).toMatchObject({ status: "cancelled" });
});

it("has the next attempt of a job come now", async () => {
  const { id } = await lab.api<{ id: string }>("/runs", { definition: "sync_prices", input: "a test" });
  const explained = async () => (await lab.api<{ kind: string }>(`/runs/${id}/explain`)).kind;
  // Its attempts are two seconds apart: the next one is put off for as long as somebody needs for a click.
  const at = new Date(Date.now() + 3_600_000).toISOString();
  await expect.poll(async () => (await explained()) === "retry" && (await lab.api<{ changed: boolean }>(`/runs/${id}/due`, { at })).changed).toBe(true);
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Retry now…" }).click();
  await confirm(page, "Retry now");
  await state(page, "completed");
});

it("drains a queue, and resumes it", async () => {
  const page = await lab.page("/queues/stock");
  await page.getByRole("button", { name: "drain stock" }).click();
  await confirm(page, "Drain");
  await page.getByText(/^Drained by .+: a test wants it$/).waitFor();
  expect(await lab.api("/queues/stock")).toMatchObject({ state: "draining" });
  await page.getByRole("button", { name: "resume stock" }).click();
  await confirm(page, "Resume");
  await page.getByRole("button", { name: "drain stock" }).waitFor();
  expect(await lab.api("/queues/stock")).toMatchObject({ state: "open" });
});

it("pauses, resumes, triggers and deletes a schedule", async () => {
  const body = JSON.stringify({ definition: "ship", expression: "@yearly", input: "shelf 9" });
  await fetch(`${lab.url}/api/v1/schedules/pressed`, { method: "PUT", headers: { "content-type": "application/json" }, body });
  const page = await lab.page("/schedules/pressed");
  const press = (action: string) => page.getByRole("button", { name: `${action} pressed` }).click();
  await press("Pause");
  await confirm(page, "Pause");
  await page.getByText(/^Paused by .+: a test wants it$/).waitFor();
  expect(await lab.api("/schedules/pressed")).toMatchObject({ paused: true });
  await press("Resume");
  await confirm(page, "Resume");
  await page.getByRole("button", { name: "Pause pressed" }).waitFor();
  expect(await lab.api("/schedules/pressed")).toMatchObject({ paused: false });
  await press("Trigger");
  await confirm(page, "Trigger");
  await page.waitForURL("**/runs/run_*");
  await page.locator("h1", { hasText: "ship" }).waitFor();
  await state(page, "completed");
  await page.goto(`${lab.url}/schedules/pressed`);
  await page.getByRole("button", { name: "Delete…" }).click();
  await confirm(page, "Delete");
  await page.waitForURL("**/schedules");
  await page.getByRole("link", { name: "stock-check" }).first().waitFor();
  await expect.poll(() => page.getByRole("link", { name: "pressed" }).count()).toBe(0);
  expect((await lab.ask("/schedules/pressed")).status).toBe(404);
});

it("aborts a bulk, which then does nothing any more", async () => {
  const id = await lab.order("left alone");
  // Bulks are runs in a queue of their own: this one stands in line until somebody aborts it.
  await lab.api("/queues/outlast/pause", { reason: "a test wants it" });
  const { id: bulk } = await lab.api<{ id: string }>("/bulk", { op: "cancel", filter: "def:order status:waiting", reason: "a test wants it" });
  const page = await lab.page(`/bulk/${bulk}`);
  await page.getByRole("button", { name: "Abort…" }).click();
  await confirm(page, "Abort");
  await state(page, "cancelled");
  expect(await page.getByRole("button", { name: "Abort…" }).count()).toBe(0);
  await lab.api("/queues/outlast/resume", {});
  await page.goto(`${lab.url}/bulk?state=cancelled`);
  await page.locator(`a[href="/bulk/${bulk}"]`).first().waitFor();
  expect(await lab.api(`/runs/${id}`)).toMatchObject({ status: "waiting" });
});
