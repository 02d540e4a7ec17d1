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

it("has room for each state and for what can be filtered by on a telephone", async () => {
  await lab.run({ definition: "trip", input: "Atlantis" }, "undo_failed");
  const context = await lab.somebody();
  for (const width of [390, 800]) {
    const page = await context.newPage();
    await page.setViewportSize({ width, height: 820 });
    await page.goto(`${lab.url}/runs`);
    const chip = page.getByRole("listitem").locator("[data-state=undo_failed]").first();
    await chip.waitFor();
    expect(await chip.evaluate((one) => one.parentElement!.scrollWidth <= one.parentElement!.clientWidth), String(width)).toBe(true);
    const field = page.getByLabel("Filter runs");
    // As wide as its letters, and not as the room for them.
    expect(await field.evaluate((one: HTMLInputElement) => {
      const letters = Object.assign(document.createElement("span"), { textContent: one.placeholder });
      Object.assign(letters.style, { position: "absolute", whiteSpace: "pre", font: getComputedStyle(one).font });
      document.body.append(letters);
      return letters.getBoundingClientRect().width <= one.clientWidth;
    }), String(width)).toBe(true);
  }
});

it("says in the list why an undo gave up", async () => {
  await lab.run({ definition: "trip", input: "Atlantis" }, "undo_failed");
  const page = await lab.page("/runs?status=undo_failed&cols=error,tags");
  const row = page.getByRole("list", { name: "Runs" }).getByRole("listitem").first();
  await row.getByTitle(/^the undo of "flight" failed/).first().waitFor();
  expect(await row.getByTitle(/^the undo of "flight" failed/).count()).toBe(2);
});

it("has lengths of idle times beside each other on a telephone, and a name for those that have no room", async () => {
  const id = await lab.order("idle");
  const page = await lab.page("/runs");
  await page.setViewportSize({ width: 390, height: 820 });
  const from = Date.now() - 7_200_000;
  const at = (minutes: number) => new Date(from + minutes * 60_000).toISOString();
  // Six idle times, with six seconds of work around each.
  const began = [9, 30, 4, 15, 8, 20].reduce((all, idle) => [...all, all.at(-1)! + 0.1 + idle], [0]);
  const worked = began.map((minute, nth) => ({ op: "step", name: `work ${nth}`, state: "completed", began_at: at(minute), ended_at: at(minute + 0.1), until: null, child: null, attempts: [], result: null, error: null }));
  await page.route(`**/api/v1/runs/${id}?preview=*`, async (route) => route.fulfill({ json: { ...((await (await route.fetch()).json()) as object), status: "completed", created_at: at(0), started_at: at(0), finished_at: worked.at(-1)!.ended_at } }));
  await page.route(`**/api/v1/runs/${id}/steps?*`, (route) => route.fulfill({ json: { items: worked, total: worked.length, next_after: null } }));
  await page.goto(`${lab.url}/runs/${id}`);
  const names = page.getByRole("button", { name: /idle: show all of it$/ });
  await expect.poll(() => names.count()).toBe(6);
  const boxes = await names.evaluateAll((all) => all.map((one) => ({ text: one.textContent, left: one.getBoundingClientRect().left, right: one.getBoundingClientRect().right })));
  boxes.sort((a, b) => a.left - b.left).forEach((one, nth) => nth && expect(one.left, `${one.text} behind ${boxes[nth - 1]!.text}`).toBeGreaterThanOrEqual(boxes[nth - 1]!.right - 1));
  expect(boxes.map((one) => one.text)).toContain("30 min");
  // One that has no room for its length can be opened all the same.
  const bare = names.and(page.locator(":empty")).first();
  expect(await bare.getAttribute("title")).toMatch(/^\d+ min.* Idle time\. Click to show all of it\.$/);
  await bare.click();
  await page.waitForURL(/bands=/);
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
  // Nor as time that it took since then.
  await page.getByText(/^continued as new (now|\d+ s ago)$/).waitFor();
  await expect.poll(() => page.locator("main").innerText()).toMatch(/\bfor [\d.]+ m?s since then/);
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
  await page.getByRole("row", { name: /^stock/ }).getByText("p95 ≈ 700 ms, at most 1 min 30 s").waitFor();
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

it("shows how far a bulk is while it goes on, and says so where it had ended before it was aborted", async () => {
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
  // It has ended, which the page does not know: whoever aborts it is told.
  await lab.until(bulk, "completed");
  await page.getByRole("dialog").getByRole("button", { name: "Abort", exact: true }).click();
  await page.getByRole("dialog").getByRole("alert").getByText("Nothing was aborted: it had ended before that.").waitFor();
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
  expect(await chart.locator("title").first().textContent()).toMatch(/half stood in line for less than ≈ 30 ms, 95 % for less than ≈ 400 ms/);
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
