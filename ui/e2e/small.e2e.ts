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

it("says how long the first of a queue was in line at most", async () => {
  const page = await lab.page("/runs");
  await page.route("**/api/v1/stats/series?*queue=stock*", async (route) => {
    const answer = await route.fetch();
    const series = (await answer.json()) as { points: { queue_wait_ms: number }[] };
    series.points.forEach((point, nth) => (point.queue_wait_ms = nth === 1 ? 90_000 : 1200));
    await route.fulfill({ response: answer, json: series });
  });
  await page.goto(`${lab.url}/queues`);
  await page.getByRole("row", { name: /^stock/ }).getByText("at most 1 min 30 s").waitFor();
  // Nothing of it is beyond the edge.
  await expect.poll(() => page.getByRole("table").evaluate((one) => one.scrollWidth <= one.parentElement!.clientWidth)).toBe(true);
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
