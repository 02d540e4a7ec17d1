// What somebody has in hand: it stays as it is under their fingers, is where their eyes are, and goes when they say so.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

/// What a page asks for from now on, of what fits.
function asks(page: Page, fits: (url: URL, body: string | null) => boolean): string[] {
  const asked: string[] = [];
  page.on("request", (request) => fits(new URL(request.url()), request.postData()) && asked.push(new URL(request.url()).search));
  return asked;
}

it("asks of a run that goes on for those steps alone that may have changed", async () => {
  const id = await lab.order("again");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  await page.getByRole("group", { name: "Steps" }).getByText("approval", { exact: true }).waitFor();
  const asked = asks(page, (url) => url.pathname.endsWith(`/${id}/steps`));
  await lab.api(`/runs/${id}/events`, { name: "approval", data: { by: "e2e", ok: true } });
  await page.getByRole("group", { name: "Steps" }).getByRole("button", { name: "Steps of the child" }).waitFor();
  await page.locator("[data-state=completed]").first().waitFor();
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.filter((search) => new URLSearchParams(search).get("after") === "0")).toEqual([]);
});

it("says how many a bulk is for once, and not another number under somebody's finger", async () => {
  await lab.run({ definition: "order", input: { item: "bulk", cents: 50_000 }, tags: { test: "bulk" } }, "waiting");
  const page = await lab.page("/runs?status=waiting&tag=test%3Dbulk");
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  const previews = asks(page, (url, body) => url.pathname.endsWith("/bulk") && !!body?.includes('"dry_run":true'));
  await page.getByRole("button", { name: "Act on all…" }).click();
  await page.getByRole("button", { name: "Cancel 1 run" }).waitFor();
  const lists = asks(page, (url) => url.pathname.endsWith("/runs"));
  await lab.run({ definition: "order", input: { item: "bulk", cents: 50_000 }, tags: { test: "bulk" } }, "waiting");
  // What is told of that has come, and what it makes the page ask for is asked for at once.
  await expect.poll(() => lists.length).toBeGreaterThan(1);
  expect(previews).toHaveLength(1);
  await page.getByRole("button", { name: "Cancel 1 run" }).waitFor();
  // Whoever opens it again is told anew.
  await page.getByRole("button", { name: "Not now" }).click();
  await page.getByRole("button", { name: "Act on all…" }).click();
  await page.getByRole("button", { name: "Cancel 2 runs" }).waitFor();
});

it("closes a step by Esc where it was opened by a click", async () => {
  const page = await lab.page(`/runs/${await lab.order("esc")}`);
  await page.getByRole("group", { name: "Steps" }).getByText("charge", { exact: true }).click();
  const panel = page.getByRole("complementary", { name: "Step charge" });
  await panel.waitFor();
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "detached" });
  await page.waitForURL((url) => !url.search.includes("step"));
});

it("brings a step on the screen where there is no room beside the timeline, if somebody has chosen it there", async () => {
  const page = await lab.page("/runs");
  await page.setViewportSize({ width: 390, height: 700 });
  const id = await lab.order("narrow");
  await page.goto(`${lab.url}/runs/${id}`);
  await page.getByRole("group", { name: "Steps" }).getByText("charge", { exact: true }).click();
  const panel = page.getByRole("complementary", { name: "Step charge" });
  await panel.waitFor();
  await expect.poll(async () => (await panel.boundingBox())!.y).toBeLessThan(350);
});

it("shows the option that the arrows have come to", async () => {
  const page = await lab.page("/runs");
  await page.setViewportSize({ width: 1280, height: 420 });
  await page.locator("h1", { hasText: "Runs" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("option").nth(11).waitFor();
  const list = page.getByRole("listbox");
  await list.evaluate((one) => (one.style.maxHeight = "120px"));
  for (let nth = 1; nth < 12; nth++) await page.keyboard.press("ArrowDown");
  await expect.poll(() => page.getByRole("option", { selected: true }).getAttribute("id")).toBe("option-11");
  await expect.poll(() => list.evaluate((one) => {
    const [frame, option] = [one.getBoundingClientRect(), one.querySelector("[aria-selected=true]")!.getBoundingClientRect()];
    return option.bottom <= frame.bottom + 1 && option.top >= frame.top - 1;
  })).toBe(true);
});

it("leaves whoever reads a log by keys where they are", async () => {
  const id = await lab.order("log");
  const page = await lab.page("/runs");
  const line = (nth: number) => ({ at: new Date(1.7e12 + nth * 1000).toISOString(), level: "info", message: `line ${nth}`, step: null });
  let count = 300;
  await page.route(`**/api/v1/runs/${id}/logs?*`, (route) => {
    const after = Number(new URL(route.request().url()).searchParams.get("after") ?? 0);
    return route.fulfill({ json: { items: Array.from({ length: Math.max(0, count - after) }, (_, nth) => line(after + nth)), next_after: count, has_more: false } });
  });
  await page.goto(`${lab.url}/runs/${id}?tab=logs`);
  await page.getByText("line 299", { exact: true }).waitFor();
  const log = page.getByRole("log", { name: "Log" });
  const follow = page.getByRole("checkbox", { name: "follow" });
  expect(await follow.isChecked()).toBe(true);
  await log.focus();
  await page.keyboard.press("PageUp");
  await expect.poll(() => follow.isChecked()).toBe(false);
  count = 400;
  await lab.api(`/runs/${id}/events`, { name: "nothing", data: 1 });
  await page.getByText("400 lines").waitFor();
  expect(await page.getByText("line 399", { exact: true }).count()).toBe(0);
  // Whoever follows again is at the end.
  await follow.check();
  await page.getByText("line 399", { exact: true }).waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download the lines shown" }).click()]);
  expect(file.suggestedFilename()).toBe(`${id}.log`);
});

it("begins to walk the list on the screen, or beside the box that somebody has chosen", async () => {
  for (let nth = 0; nth < 60; nth++) await lab.api("/runs", { definition: "remind", input: `walk ${nth}`, delay_ms: 3_600_000 });
  const page = await lab.page("/runs?def=remind");
  await page.getByRole("listitem").first().waitFor();
  await page.locator("#main").evaluate((main) => main.scrollTo({ top: 900 }));
  await page.locator("a[data-index='30']").waitFor();
  const focused = () => page.evaluate(() => Number((document.activeElement as HTMLElement).dataset.index ?? -1));
  await page.keyboard.press("j");
  const first = await focused();
  const { y } = (await page.locator(`a[data-index='${first}']`).boundingBox())!;
  const { y: top } = (await page.locator("#main").boundingBox())!;
  expect([y >= top, y < top + 120]).toEqual([true, true]);
  await page.getByRole("listitem").filter({ has: page.locator("a[data-index='30']") }).getByRole("checkbox").click();
  await page.keyboard.press("j");
  expect(await focused()).toBe(31);
});

it("does not start a definition before what it was started with last has come", async () => {
  await lab.run({ definition: "remind", input: "tea" }, "completed", "waiting", "running", "ready");
  const page = await lab.page("/definitions");
  let [answer, isAsked] = [() => {}, false];
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route("**/api/v1/runs?def=remind&limit=1", async (route) => {
    isAsked = true;
    await answered;
    await route.continue();
  });
  await page.getByRole("button", { name: "Start remind" }).click();
  await expect.poll(() => isAsked).toBe(true);
  const start = page.getByRole("dialog").getByRole("button", { name: "Start", exact: true });
  expect(await start.isDisabled()).toBe(true);
  answer();
  await expect.poll(() => start.isEnabled()).toBe(true);
});
