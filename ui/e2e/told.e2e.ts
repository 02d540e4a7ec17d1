// What pages tell beside what things are: what runs wait for, where failures happened, what nodes know, how the server stands.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("says in the list of runs what a run waits for, and since when", async () => {
  const id = await lab.order("patience");
  const page = await lab.page("/runs?status=waiting&def=order");
  const cell = page.locator(`a[href="/runs/${id}"] [data-col=took]`);
  await expect.poll(() => cell.innerText()).toMatch(/^\d[\d.]* \w+( \d+ \w+)? for event approval$/);
  expect(await cell.getAttribute("title")).toMatch(/^waiting for event approval since \d/);
  await lab.api(`/runs/${id}/events`, { name: "approval", data: { by: "e2e", ok: true } });
  await lab.until(id, "completed");
  await page.goto(`${lab.url}/runs?status=completed&def=order`);
  await expect.poll(() => cell.innerText()).toMatch(/^\d[\d.]* (ms|s|min)/);
});

it("asks for the first runs while its script is still on its way, and only once", async () => {
  await lab.order("early");
  const page = await lab.page("/runs");
  await page.getByRole("listitem").first().waitFor();
  const asked = await page.evaluate(() => (performance.getEntriesByType("resource") as PerformanceResourceTiming[])
    .filter((one) => one.name.includes("/api/v1/runs?")).map((one) => ({ by: one.initiatorType, from: one.startTime, to: one.responseEnd })));
  expect(asked[0]!.by).toBe("link");
  expect(asked.filter((one) => one.by === "fetch" && one.from < asked[0]!.to)).toEqual([]);
  const script = await page.evaluate(() => (performance.getEntriesByName(new URL("assets/app.js", document.baseURI).href)[0] as PerformanceResourceTiming).responseEnd);
  expect(asked[0]!.from).toBeLessThan(script);
});

it("opens a run of the list in the same tab by a click, and in another as browsers do", async () => {
  const id = await lab.order("tabs");
  const page = await lab.page("/runs?status=waiting&def=order");
  const link = page.locator(`a[href="/runs/${id}"]`);
  const [other] = await Promise.all([page.context().waitForEvent("page"), link.click({ button: "middle" })]);
  await other.waitForURL(`**/runs/${id}`);
  expect(new URL(page.url()).pathname).toBe("/runs");
  await page.evaluate(() => ((window as unknown as { same: boolean }).same = true));
  await link.click();
  await page.waitForURL(`**/runs/${id}`);
  expect(await page.evaluate(() => (window as unknown as { same?: boolean }).same)).toBe(true);
});

it("names the step and the versions of failures that are alike", async () => {
  await lab.run({ definition: "trip", input: "Luna" }, "failed");
  await lab.failures();
  const page = await lab.page("/errors?def=trip");
  const row = page.getByRole("row").filter({ hasText: "trip" }).first();
  await row.waitFor();
  const { items } = await lab.api<{ items: { step: string | null; versions: number[] }[] }>("/errors?def=trip");
  expect(items[0]!.versions).toEqual([1]);
  expect(await row.innerText()).toMatch(new RegExp(`${items[0]!.step ?? ""}\\s+@1\\s`));
  await row.getByRole("link").first().click();
  await page.getByText("Versions", { exact: true }).waitFor();
  await page.locator("dd", { hasText: "@1" }).waitFor();
  // When it happened, and of nothing else; and what was said, as a step says it.
  const chart = page.getByRole("img", { name: /^Failed like this: [1-9]/ });
  await chart.waitFor();
  const [, count] = /: (\d+) failed/.exec((await chart.getAttribute("aria-label"))!)!;
  expect(Number(count)).toBeLessThanOrEqual((await lab.api<{ items: { runs: number }[] }>("/errors?def=trip")).items[0]!.runs);
  const last = page.getByRole("region", { name: "The last one" });
  await last.getByRole("heading", { name: /^Error/ }).waitFor();
  await last.getByText(/nobody insures/).first().waitFor();
  await last.getByText("as it was recorded").waitFor();
});

it("says what a node knows, how many of its slots are used, and how it was built", async () => {
  const page = await lab.page("/nodes");
  const row = page.getByRole("row").nth(1);
  await expect.poll(() => row.innerText()).toMatch(/\d+\s*\/ 256\s/);
  expect(await row.innerText()).toContain("order@1");
  expect(await row.innerText()).not.toContain("outlast.bulk");
  const known = await lab.page("/definitions/order");
  await expect.poll(() => known.getByRole("row").nth(1).innerText()).toMatch(/^workflow\s+1\s+1\s+yes/);
  await row.getByRole("link").first().click();
  await page.locator("dd", { hasText: /^rust$/i }).waitFor();
  await page.locator("dd", { hasText: /.+, debug$/ }).waitFor();
});

it("says how much of a queue's rate is left", async () => {
  const set = await fetch(`${lab.url}/api/v1/queues/stock/limits`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ rate: { count: 1000, per_ms: 3_600_000 } }) });
  expect(set.status).toBe(200);
  const page = await lab.page("/queues");
  await page.getByText(/^\d+ of 1,000 begun$/).waitFor();
  await page.goto(`${lab.url}/queues/stock`);
  await page.locator("dd", { hasText: /of 1,000 begun/ }).waitFor();
});

it("says how the server stands: schema, sums, what is kept, and how much room tables take", async () => {
  const page = await lab.page("/system");
  await page.locator("dd", { hasText: /^version \d+$/ }).waitFor();
  await page.locator("dd", { hasText: "up to date" }).waitFor();
  await page.getByRole("row").filter({ hasText: "The audit log" }).getByText("for 400 d").waitFor();
  const runs = page.getByRole("row").filter({ has: page.getByRole("cell", { name: "runs", exact: true }) });
  await expect.poll(() => runs.allInnerTexts()).toContainEqual(expect.stringMatching(/\d+ kB/));
  // Nothing is checked twice, and no check says nothing.
  const checks = page.getByRole("table").first().getByRole("row");
  await checks.getByText("schedules", { exact: true }).waitFor();
  const said = (await checks.evaluateAll((rows) => rows.slice(1).map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent!))));
  expect(new Set(said.map(([name]) => name)).size).toBe(said.length);
  for (const [name, , says] of said) expect(says, name).not.toBe("");
});
