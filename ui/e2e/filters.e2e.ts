// Which runs the list shows: by node, version and owner, and those that do not get on.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

const row = (page: Page, id: string) => page.locator(`a[href="/runs/${id}"]`);
/// The list is there, and this run is not in it.
async function misses(page: Page, id: string) {
  await page.getByRole("heading", { name: /^No run fits/ }).or(page.getByRole("list", { name: "Runs" })).first().waitFor();
  await expect.poll(() => row(page, id).count()).toBe(0);
}

it("shows what a node has in hand, from its page and by its id", async () => {
  const { items: [node] } = await lab.api<{ items: { id: string; name: string }[] }>("/nodes");
  const id = await lab.run({ definition: "stocktaking", input: 12 }, "running", "waiting", "completed");
  const page = await lab.page(`/nodes/${node!.id}`);
  await page.getByRole("link", { name: "Runs in hand" }).click();
  await page.waitForURL(`**/runs?node=${node!.id}`);
  await page.getByLabel(`Remove node:${node!.id}`).waitFor();
  await lab.until(id, "completed");
  await expect.poll(() => row(page, id).count()).toBe(0);
  await page.getByLabel("Filter runs").fill("node:");
  const hint = page.locator(`#filter-hints option[value="node:${node!.id}"]`);
  await hint.waitFor({ state: "attached" });
  expect(await hint.getAttribute("label")).toContain(node!.name);
});

it("tells versions apart, and offers those that there are", async () => {
  const id = await lab.order("versioned");
  const page = await lab.page("/runs?def=order");
  await row(page, id).waitFor();
  await page.getByLabel("Filter runs").fill("version:");
  await page.locator('#filter-hints option[value="version:1"]').waitFor({ state: "attached" });
  await page.getByLabel("Filter runs").fill("version:1");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/runs?def=order&version=1");
  await row(page, id).waitFor();
  await page.goto(`${lab.url}/definitions/order`);
  await page.getByRole("link", { name: "1", exact: true }).first().click();
  await page.getByRole("link", { name: "Last runs of version 1" }).click();
  await page.waitForURL("**/runs?def=order&version=1");
  await page.goto(`${lab.url}/runs?def=order&version=7`);
  await misses(page, id);
});

it("knows who started what: Mine", async () => {
  const mine = await lab.order("mine");
  process.env.USER = "ann";
  lab.cli("start", "order", "--input", '{"item":"hers","cents":50000}', "--key", "hers");
  const { items: [hers] } = await lab.api<{ items: { id: string; owner: string }[] }>("/runs?key=hers");
  expect(hers!.owner).toBe("ann");
  const page = await lab.page("/runs");
  await row(page, hers!.id).waitFor();
  await page.getByRole("link", { name: "Mine" }).click();
  await page.waitForURL("**/runs?owner=local");
  await row(page, mine).waitFor();
  await misses(page, hers!.id);
  await page.goto(`${lab.url}/runs?owner=${hers!.owner}`);
  await row(page, hers!.id).waitFor();
});

it("shows what is stuck, however old it is, and nothing else", async () => {
  // Due long ago, and in a queue that is held.
  await lab.api("/queues/stock/pause", {});
  const stuck = await lab.run({ definition: "check_stock", input: 1, queue: "stock", at: "2020-01-01T00:00:00Z" }, "ready");
  const fresh = await lab.run({ definition: "check_stock", input: 1, queue: "stock" }, "ready");
  const page = await lab.page("/runs");
  await row(page, fresh).waitFor();
  await page.getByRole("link", { name: "Stuck" }).click();
  await page.waitForURL("**/runs?stuck=5m");
  await row(page, stuck).waitFor();
  await misses(page, fresh);
  await page.getByText("1 run", { exact: true }).first().waitFor();
  await page.goto(`${lab.url}/runs?stuck=1s`);
  await row(page, fresh).waitFor();
  // All that is stuck can be acted on: the words of the filter are those of a bulk.
  await page.getByRole("button", { name: "Act on all…" }).click();
  await page.getByText("stuck:1s").first().waitFor();
});
