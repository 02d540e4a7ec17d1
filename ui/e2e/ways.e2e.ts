// Ways through the dashboard: back to where one was, to what a link names, by keyboard, and while the server is away.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

const focused = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent);
const top = (page: Page) => page.locator("#main").evaluate((main) => main.scrollTop);

it("comes back from a run to the place in the list, and opens a page at its top", async () => {
  for (let nth = 0; nth < 60; nth++) await lab.api("/runs", { definition: "remind", input: `later ${nth}`, delay_ms: 3_600_000 });
  const page = await lab.page("/runs?def=remind");
  await page.getByRole("listitem").first().waitFor();
  await page.locator("#main").evaluate((main) => main.scrollTo({ top: 900 }));
  const row = page.locator("a[data-index='30']");
  const href = await row.getAttribute("href");
  await row.click();
  await page.waitForURL(`**${href}`);
  await page.locator("h1", { hasText: "remind" }).waitFor();
  await expect.poll(() => top(page)).toBe(0);
  await page.goBack();
  await page.locator(`a[href="${href}"]`).waitFor();
  await expect.poll(() => top(page)).toBe(900);
  // Forth again is another page, and the list from elsewhere is a list from its beginning.
  await page.getByRole("link", { name: "Queues", exact: true }).first().click();
  await page.locator("h1", { hasText: "Queues" }).waitFor();
  await page.getByRole("link", { name: "Runs", exact: true }).first().click();
  await page.getByRole("listitem").first().waitFor();
  await expect.poll(() => top(page)).toBe(0);
});

/// A run with so many steps, each ten milliseconds after the one before.
async function long(path: (id: string) => string, count = 300): Promise<Page> {
  const id = await lab.order("long");
  const { created_at: created } = await lab.api<{ created_at: string }>(`/runs/${id}`);
  const at = (nth: number) => new Date(Date.parse(created) + 10 * nth).toISOString();
  const items = Array.from({ length: count }, (_, nth) => ({ op: "step", name: `s${nth}`, state: "completed", began_at: at(nth), ended_at: at(nth + 0.8), until: null, child: null, attempts: [], result: nth, error: null }));
  const context = await lab.somebody();
  await context.route(`**/api/v1/runs/${id}/steps?*`, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const [after, limit] = [Number(query.get("after") ?? 0), Number(query.get("limit") ?? count)];
    const some = items.slice(after, after + limit);
    return route.fulfill({ json: { items: some, total: count, next_after: after + limit < count ? after + limit : null } });
  });
  return await lab.page(path(id), "light", context);
}

/// What is on the screen of the timeline, from its first row to its last.
const rows = (page: Page) => page.getByRole("group", { name: "Steps" }).evaluate((view) => {
  const { top, bottom } = view.getBoundingClientRect();
  return [...view.querySelectorAll("[data-row]")].filter((row) => row.getBoundingClientRect().top >= top - 1 && row.getBoundingClientRect().bottom <= bottom + 1).map((row) => row.getAttribute("title")!);
});

it("finds the first failure of a long run whose middle is still on its way", async () => {
  const page = await long((id) => `/runs/${id}`, 900);
  let go = () => {};
  let come = new Promise<void>((resolve) => (go = resolve));
  // One in the middle fails, and one near the end, which is there from the beginning.
  await page.route("**/steps?*", async (route) => {
    const query = new URL(route.request().url()).searchParams;
    if (Number(query.get("limit")) > 200) await come;
    const after = Number(query.get("after") ?? 0);
    const items = Array.from({ length: Math.max(0, Math.min(Number(query.get("limit")), 900 - after)) }, (_, at) => {
      const [nth, when] = [after + at, new Date(Date.now() - 60_000 + 10 * (after + at)).toISOString()];
      return { op: "step", name: `s${nth}`, state: nth === 450 || nth === 880 ? "failed" : "completed", began_at: when, ended_at: when, until: null, child: null, attempts: [], result: null, error: null };
    });
    const next = after + items.length;
    await route.fulfill({ json: { items, total: 900, next_after: next < 900 ? next : null } });
  });
  await page.reload();
  await page.getByText("400 of 900 operations").waitFor();
  await page.keyboard.press("f");
  go();
  await page.getByRole("complementary", { name: "Step s450" }).waitFor();

  // Whoever looks at something else meanwhile is left there.
  const steps = page.getByRole("group", { name: "Steps" });
  for (const leave of [() => page.keyboard.press("Escape"), () => steps.hover().then(() => page.mouse.wheel(0, 300)), () => steps.getByText("s5", { exact: true }).click()]) {
    come = new Promise<void>((resolve) => (go = resolve));
    await page.goto(page.url().split("?")[0]!);
    await page.getByText("400 of 900 operations").waitFor();
    await page.keyboard.press("f");
    await leave();
    go();
    await page.getByText("900 operations", { exact: true }).waitFor();
    // What it would have been taken to had come to the address before this does.
    await page.getByRole("checkbox", { name: "Compress idle time" }).uncheck();
    await page.waitForURL((url) => url.searchParams.get("idle") === "1");
    expect(page.url()).not.toContain("s450");
  }
});

it("shows the step that a link names, also in the middle of a long run", async () => {
  for (const nth of [150, 290]) {
    const page = await long((id) => `/runs/${id}?step=step:s${nth}`);
    await page.getByRole("complementary", { name: `Step s${nth}` }).waitFor();
    await page.getByText("300 operations").waitFor();
    await expect.poll(() => rows(page)).toContain(`step s${nth}: completed`);
    await page.context().close();
  }
});

it("shows the steps of the stretch that a link names", async () => {
  const page = await long((id) => `/runs/${id}?zoom=1503-1600`, 2000);
  await page.getByText("2,000 operations").waitFor();
  await expect.poll(async () => (await rows(page))[0]).toBe("step s150: completed");
  // Who scrolls away afterwards is left alone.
  await page.getByRole("group", { name: "Steps" }).evaluate((view) => view.scrollTo({ top: 0 }));
  await expect.poll(async () => (await rows(page))[0]).toBe("step s0: completed");
  await page.context().close();
});

it("gives the focus back to the button that opened a menu or a dialog, and walks along a menu by its arrows", async () => {
  const id = await lab.order("keys");
  const page = await lab.page(`/runs/${id}`);
  await page.getByText("waiting for event approval").waitFor();
  const more = page.getByLabel("More actions");
  await more.focus();
  await page.keyboard.press("ArrowDown");
  expect(await focused(page)).toBe("Cancel…");
  await page.keyboard.press("ArrowDown");
  expect(await focused(page)).toBe("Pause…");
  await page.keyboard.press("End");
  expect(await focused(page)).toBe("Fork from a step…");
  await page.keyboard.press("ArrowDown");
  expect(await focused(page)).toBe("Cancel…");
  await page.keyboard.press("Escape");
  expect(await focused(page)).toBe("More actions");
  expect(await page.getByRole("button", { name: "Pause…" }).isVisible()).toBe(false);
  // A dialog that was opened from there, left by Esc and by its button.
  for (const leave of [() => page.keyboard.press("Escape"), () => page.getByRole("button", { name: "Not now" }).click()]) {
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: /^Cancel order/ }).waitFor();
    await leave();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("More actions");
  }
  const first = page.getByRole("button", { name: "Send event…" });
  await first.click();
  await page.getByRole("dialog").waitFor();
  await page.getByRole("button", { name: "Not now" }).click();
  await expect.poll(() => focused(page)).toBe("Send event…");
});

it("filters runs from any page by its key", async () => {
  const page = await lab.page("/queues");
  await page.locator("h1", { hasText: "Queues" }).waitFor();
  await page.keyboard.press("/");
  await page.waitForURL("**/runs");
  await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("filter");
});

it("stays as it was while the server is away, with one word of that, whatever is asked for meanwhile", async () => {
  const page = await lab.page("/settings");
  await page.clock.install();
  await lab.run({ definition: "trip", input: "Luna" }, "failed");
  await lab.failures();
  await page.goto(`${lab.url}/errors`);
  const rows = page.getByRole("row");
  await expect.poll(() => rows.count()).toBeGreaterThan(1);
  let asked = 0;
  await page.route(/api\/v1\/(errors|queues)(\?|$)/, (route) => (asked++, route.abort("connectionrefused")));
  // Everything that stands there from now on.
  await page.evaluate(() => {
    const seen = ((window as unknown as { seen: Set<string> }).seen = new Set());
    const main = document.querySelector("main")!;
    const look = () => seen.add([main.querySelector("h1")?.textContent, main.querySelectorAll("[role=alert]").length, main.querySelectorAll("tbody tr").length > 0, main.textContent!.includes("Loading…")].join());
    new MutationObserver(look).observe(main, { childList: true, subtree: true, characterData: true });
  });
  const seen = () => page.evaluate(() => [...(window as unknown as { seen: Set<string> }).seen]);
  const often = async (times: number) => {
    const from = asked;
    await expect.poll(async () => (await page.clock.runFor(1000), asked)).toBeGreaterThan(from + times);
  };
  await page.getByRole("button", { name: "6h" }).click();
  await page.getByRole("alert").waitFor();
  await often(9);
  expect((await seen()).filter((one) => one.startsWith("Errors"))).toEqual(["Errors,0,true,false", "Errors,1,true,false"]);
});

it("says inside of the page that a server is away where something has to come from it, and shows it when it is back", async () => {
  const page = await lab.page("/runs");
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  await page.evaluate(() => ((window as unknown as { same: boolean }).same = true));
  await lab.stop();
  await page.getByRole("link", { name: "Definitions", exact: true }).click();
  await page.getByRole("alert").getByText("The server cannot be reached").waitFor();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("alert").getByText("The server cannot be reached").waitFor();
  expect(await page.evaluate(() => (window as unknown as { same?: boolean }).same)).toBe(true);
  expect(new URL(page.url()).pathname).toBe("/definitions");
  await page.getByRole("link", { name: "Runs", exact: true }).first().click();
  await page.locator("h1", { hasText: "Runs" }).waitFor();
  await page.getByRole("link", { name: "Definitions", exact: true }).click();
  await lab.start();
  await page.getByRole("link", { name: "trip", exact: true }).waitFor();
});
