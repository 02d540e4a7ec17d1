// Small things that mislead whoever looks: a clock that is a little off, names that a telephone has no room for, addresses of nothing.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("warns of a clock that is two seconds off, and not of one that is right", async () => {
  const context = await lab.somebody();
  await context.addInitScript(() => {
    const now = Date.now.bind(Date);
    Date.now = () => now() - 2000;
  });
  const page = await lab.page("/", "light", context);
  await page.getByRole("status", { name: "Warnings" }).getByText(/clock is 2 s behind the server's/).waitFor();
  const right = await lab.page("/");
  await right.locator("main").getByText("stock", { exact: true }).waitFor();
  expect(await right.getByText("This machine's clock").count()).toBe(0);
});

it("says that there is no such run where an address has no id in it, and stays live", async () => {
  const page = await lab.page("/runs/run_nope");
  await page.getByRole("heading", { level: 1, name: "There is no such run" }).waitFor();
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  await page.getByRole("link", { name: "To the runs" }).click();
  await page.locator("h1", { hasText: "Runs" }).waitFor();
});

it("says that there is no such bulk where an address has none", async () => {
  const page = await lab.page("/bulk/none");
  await page.getByRole("heading", { level: 1, name: "There is no such bulk" }).waitFor();
  await page.getByRole("link", { name: "To the bulks" }).click();
  await page.locator("h1", { hasText: "Bulk" }).waitFor();
});

it("tells its version and time where there is no room for them beside the pages", async () => {
  const page = await lab.page("/settings");
  await page.setViewportSize({ width: 390, height: 820 });
  await page.locator("main").getByText(/^Outlast \d+\.\d+/).waitFor();
  await page.locator("main").getByRole("button", { name: /^\d\d:\d\d:\d\d (here|UTC)$/ }).waitFor();
});

it("has room for the names of steps on a telephone", async () => {
  const id = await lab.order("telephone");
  const page = await lab.page("/runs");
  await page.setViewportSize({ width: 390, height: 820 });
  await page.goto(`${lab.url}/runs/${id}`);
  for (const name of ["reserve", "charge", "approval"]) {
    const label = page.getByRole("group", { name: "Steps" }).getByText(name, { exact: true });
    await label.waitFor();
    expect(await label.evaluate((one) => one.scrollWidth <= one.clientWidth), name).toBe(true);
  }
});

it("does not count as time in line what a run did before it continued as new", async () => {
  const id = await lab.order("anew");
  const page = await lab.page("/runs");
  const { created_at: began } = await lab.api<{ created_at: string }>(`/runs/${id}`);
  const earlier = new Date(Date.parse(began) - 7_200_000).toISOString();
  await page.route(`**/api/v1/runs/${id}?preview=*`, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...((await answer.json()) as object), created_at: earlier } });
  });
  await page.route(`**/api/v1/runs/${id}/history?limit=1`, (route) => route.fulfill({ json: { items: [{ pos: 9, op: "continue", phase: "done", name: "continue", at: began, body: 1 }], next_after: null } }));
  await page.goto(`${lab.url}/runs/${id}`);
  const spent = page.getByRole("img", { name: /^Time:/ });
  await spent.waitFor();
  await expect.poll(() => spent.getAttribute("aria-label")).toContain("waiting");
  await expect.poll(() => spent.getAttribute("aria-label")).not.toMatch(/\bh\b.*in line/);
});

it("says how long those of a queue stood in line, and the first of them at most", async () => {
  const page = await lab.page("/runs");
  await page.route("**/api/v1/stats/series?*queue=stock*", async (route) => {
    const answer = await route.fetch();
    const series = (await answer.json()) as { points: { queue_wait_ms: number }[]; wait_p95_ms: number };
    series.points.forEach((point, nth) => (point.queue_wait_ms = nth === 1 ? 90_000 : 1200));
    series.wait_p95_ms = 700;
    await route.fulfill({ response: answer, json: series });
  });
  await page.goto(`${lab.url}/queues`);
  await page.getByRole("row", { name: /^stock/ }).getByText("p95 700 ms, at most 1 min 30 s").waitFor();
  // Nothing of it is beyond the edge.
  await expect.poll(() => page.getByRole("table").evaluate((one) => one.scrollWidth <= one.parentElement!.clientWidth)).toBe(true);
});

it("asks for nothing while live updates are paused, and for everything when they go on", async () => {
  const page = await lab.page("/queues");
  await page.clock.install();
  await page.goto(`${lab.url}/queues`);
  await page.getByRole("row", { name: /^stock/ }).waitFor();
  await page.getByRole("button", { name: "Live updates: live" }).click();
  const asked: string[] = [];
  page.on("request", (request) => request.url().includes("/api/") && asked.push(request.url()));
  await page.clock.runFor(60_000);
  expect(asked).toEqual([]);
  await page.getByRole("button", { name: "Live updates: paused" }).click();
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  await expect.poll(async () => (await page.clock.runFor(20_000), asked.some((url) => url.includes("/queues")))).toBe(true);
});

it("shows how far a bulk is while it goes on, and aborts it", async () => {
  const id = await lab.order("half way");
  const page = await lab.page("/bulk");
  const { id: bulk } = await lab.api<{ id: string }>("/bulk", { op: "pause", filter: "key:nobody", reason: "a test wants it" });
  await page.route(`**/api/v1/bulk/${bulk}`, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...((await answer.json()) as object), status: "running", percent: 25, total: 8, done: 1, skipped: 0, failed: 1, failures: [{ run: id, reason: "it was gone" }] } });
  });
  await page.goto(`${lab.url}/bulk/${bulk}`);
  await expect.poll(() => page.getByRole("progressbar").getAttribute("aria-valuenow")).toBe("25");
  await page.getByText(/^1 done, 0 skipped, 1 failed/).waitFor();
  await page.getByRole("row", { name: /it was gone/ }).waitFor();
  await page.getByRole("button", { name: "Abort…" }).click();
  await page.getByRole("dialog").waitFor();
});

it("draws how long runs stood in line beside how long they took", async () => {
  const page = await lab.page("/runs");
  await page.route("**/api/v1/stats/series?*", async (route) => {
    const answer = await route.fetch();
    const series = (await answer.json()) as { points: object[] };
    const points = series.points.map((point) => ({ ...point, p50_ms: 200, p95_ms: 900, wait_p50_ms: 30, wait_p95_ms: 400 }));
    await route.fulfill({ response: answer, json: { ...series, points } });
  });
  await page.goto(`${lab.url}/`);
  const chart = page.locator("figure", { hasText: "From start to end" });
  for (const line of ["in line p50", "in line p95"]) await chart.getByText(line, { exact: true }).waitFor();
  expect(await chart.locator("title").first().textContent()).toMatch(/half stood in line for less than 30 ms, 95 % for less than 400 ms/);
});

it("shows its keys from the first one on, with one way out", async () => {
  const page = await lab.page("/");
  await page.setViewportSize({ width: 1280, height: 600 });
  await page.locator("h1").waitFor();
  await page.keyboard.press("?");
  const dialog = page.getByRole("dialog", { name: "Keys" });
  await dialog.waitFor();
  expect(await dialog.evaluate((one) => one.scrollTop)).toBe(0);
  expect(await dialog.getByRole("button").allInnerTexts()).toEqual(["Close"]);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
});
