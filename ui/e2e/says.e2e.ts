// What pages say of themselves: that they were refused and not that there is nothing, what is late, what they are called, and what an address holds.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

const broken = { status: 400, json: { code: "broken", detail: "it is on fire" } };

it("says that something could not be had, and not that there is none", async () => {
  const page = await lab.page("/settings");
  for (const path of ["nodes", "queues", "errors?*", "system/config", "system/tables"]) await page.route(`**/api/v1/${path}`, (route) => route.fulfill(broken));
  await page.goto(`${lab.url}/nodes`);
  await page.getByRole("alert").getByText("it is on fire").waitFor();
  expect(await page.getByText("No node is up").count()).toBe(0);
  await page.goto(`${lab.url}/`);
  await expect.poll(() => page.getByRole("alert").getByText("it is on fire").count()).toBe(2);
  expect(await page.getByText(/No queue has rules|Nothing failed/).count()).toBe(0);
  await page.goto(`${lab.url}/system`);
  await expect.poll(() => page.getByRole("alert").getByText("it is on fire").count()).toBe(2);
});

it("says on a schedule's own page that it is late", async () => {
  const page = await lab.page("/schedules");
  await page.route("**/api/v1/schedules/stock-check", async (route) => {
    const one = (await (await route.fetch()).json()) as Record<string, unknown>;
    await route.fulfill({ json: { ...one, next_at: new Date(Date.now() - 600_000).toISOString() } });
  });
  await page.goto(`${lab.url}/schedules/stock-check`);
  await page.getByRole("status").getByText(/^It is late: it should have started a run 10 min ago/).waitFor();
  expect(await page.title()).toBe("stock-check, schedule – Outlast");
});

it("names tabs after what they show, without the way back and what changes", async () => {
  const page = await lab.page("/queues/stock");
  await page.locator("h1", { hasText: "stock" }).waitFor();
  await expect.poll(() => page.title()).toBe("stock, queue – Outlast");
  const key = `bo-${Date.now()}`;
  const id = await lab.run({ definition: "order", key, input: { item: "named", cents: 50_000 }, tags: { city: "Bern" } }, "waiting");
  await page.goto(`${lab.url}/runs/${id}`);
  await expect.poll(() => page.title()).toBe(`order ${key} – Outlast`);
  // Runs with the same tag may be older than a day.
  expect(await page.getByRole("link", { name: "city=Bern" }).getAttribute("href")).toBe("/runs?tag=city%3DBern&since=all");
});

it("has the columns that somebody chose in the address of the list, also on the way there from elsewhere", async () => {
  const page = await lab.page("/runs");
  await page.getByLabel("Columns").click();
  await page.getByLabel("Owner").click();
  await page.waitForURL(/cols=[^&]*owner/);
  await page.goto(`${lab.url}/queues`);
  await page.getByRole("link", { name: "Runs", exact: true }).first().click();
  await page.waitForURL(/\/runs\?cols=[^&]*owner/);
});

it("knows the words of the chips among what can follow a field", async () => {
  const page = await lab.page("/runs");
  await page.getByLabel("Filter runs").fill("status:re");
  await expect.poll(() => page.locator("#filter-hints option").evaluateAll((all) => all.map((one) => (one as HTMLOptionElement).value))).toEqual(["status:ready", "status:retrying"]);
});

it("keeps the order of keys that look like numbers", async () => {
  const { id } = await lab.api<{ id: string }>("/runs", '{"definition":"order","input":{"item":"x","10":2,"2":3,"cents":1},"delay_ms":3600000}');
  const page = await lab.page(`/runs/${id}`);
  await expect.poll(async () => (await page.getByRole("region", { name: "input" }).innerText()).replaceAll(/\s/g, "")).toContain('"item":"x","10":2,"2":3,"cents":1');
});

it("says why a run is no file for whoever is not shown all of it", async () => {
  const id = await lab.order("secret");
  const page = await lab.page("/runs");
  await page.route("**/api/v1/me", async (route) => {
    const me = (await (await route.fetch()).json()) as Record<string, unknown>;
    await route.fulfill({ json: { ...me, role: "viewer", capabilities: ["read"] } });
  });
  await page.route(`**/api/v1/runs/${id}/export`, (route) => route.fulfill({ status: 403, json: { code: "forbidden", detail: "this server hides some of it: ask as an admin" } }));
  await page.goto(`${lab.url}/runs/${id}?tab=raw`);
  await page.getByText("read-only").waitFor();
  await page.getByRole("link", { name: "Download with its journal" }).click();
  await page.getByRole("alert").getByText("ask as an admin").waitFor();
  await page.unroute(`**/api/v1/runs/${id}/export`);
  await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download with its journal" }).click()]);
});
