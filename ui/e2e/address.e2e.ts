// What is open on a page stands in its address, and whoever is sent it sees the same.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("has the attempt of a step that somebody chose", async () => {
  const id = await lab.run({ definition: "sync_prices", input: "north" }, "completed", "failed");
  const { items } = await lab.api<{ items: { op: string; name: string; attempts: unknown[] }[] }>(`/runs/${id}/steps`);
  const tried = items.find((step) => step.attempts.length > 0)!;
  const page = await lab.page(`/runs/${id}?step=${encodeURIComponent(`${tried.op}:${tried.name}`)}`);
  await page.getByRole("button", { name: "Attempt 1", exact: true }).click();
  await page.waitForURL(/attempt=1/);
  await page.reload();
  await page.locator("aside tr[data-on=true]").waitFor();
  expect(await page.getByRole("button", { name: "Attempt 1", exact: true }).getAttribute("aria-pressed")).toBe("true");
  // Why it failed is shown at length.
  await page.getByRole("complementary").getByRole("heading", { name: /^Error/ }).first().waitFor();
  await page.getByRole("button", { name: "Attempt 1", exact: true }).click();
  await page.waitForURL((url) => !url.search.includes("attempt"));
});

it("has the schedule whose times are shown", async () => {
  const page = await lab.page("/schedules");
  await page.getByRole("button", { name: "Next times of stock-check" }).click();
  await page.waitForURL("**/schedules?open=stock-check");
  const other = await lab.page("/schedules?open=stock-check");
  await other.locator("tr li").nth(4).waitFor();
});

it("has the version of a definition", async () => {
  await lab.order("versions");
  const page = await lab.page("/definitions/order");
  await page.getByTitle("Runs of version 1 alone").click();
  await page.waitForURL(/version=1/);
  await page.getByRole("heading", { name: "Last runs of version 1" }).waitFor();
  await page.locator("td a[href^='/runs/run_']").first().waitFor();
  await page.getByTitle("All versions").click();
  await page.getByRole("heading", { name: "Last runs", exact: true }).waitFor();
});

it("has the range of queues", async () => {
  const page = await lab.page("/queues");
  await page.getByRole("button", { name: "24h", exact: true }).click();
  await page.waitForURL("**/queues?range=24h");
  await page.getByRole("columnheader", { name: "Ended in 24h" }).waitFor();
  await page.getByRole("link", { name: "stock", exact: true }).click();
  await page.waitForURL("**/queues/stock?range=24h");
  expect(await page.getByRole("button", { name: "24h", exact: true }).getAttribute("aria-pressed")).toBe("true");
});

it("shows a run that somebody triggered among the last ones of its schedule", async () => {
  const { id } = await lab.api<{ id: string }>("/schedules/stock-check/trigger", {});
  const page = await lab.page("/schedules");
  await page.locator(`tr a[href="/runs/${id}"]`).first().waitFor();
});

it("shows the journal of a run beside it, as JSON", async () => {
  const id = await lab.order("raw");
  const page = await lab.page(`/runs/${id}?tab=raw`);
  await page.getByRole("region", { name: "journal" }).getByText("charge").first().waitFor();
});

it("copies the id of a run in the list", async () => {
  const id = await lab.order("copied");
  const page = await lab.page("/runs?def=order&cols=id", "light", await lab.unhurried());
  const row = page.getByRole("listitem").filter({ has: page.locator(`a[href="/runs/${id}"]`) });
  await row.getByText(`…${id.slice(-8)}`).waitFor();
  await row.getByRole("button", { name: /^Copy the id/ }).click();
  await row.getByText("copied").waitFor();
});
