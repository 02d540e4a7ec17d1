// The page of a run: what it says of where the run stands, and how its timeline, its history and its payloads are used.
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

/// Somebody to whom the server tells something else of a run.
async function told(id: string, run: object, steps?: object[], explained?: object): Promise<BrowserContext> {
  const context = await lab.somebody();
  await context.route(`**/api/v1/runs/${id}?preview=*`, async (route) => route.fulfill({ json: { ...((await (await route.fetch()).json()) as object), ...run } }));
  if (steps) await context.route(`**/api/v1/runs/${id}/steps?*`, (route) => route.fulfill({ json: { items: steps, total: steps.length, next_after: null } }));
  if (explained) await context.route(`**/api/v1/runs/${id}/explain`, (route) => route.fulfill({ json: { run: id, now: new Date().toISOString(), ...explained } }));
  return context;
}
const at = (seconds: number) => new Date(Date.now() + 1000 * seconds).toISOString();
const step = (op: string, name: string, from: number, to: number | null, more: object = {}) => ({
  op, name, state: to === null ? "running" : "completed", began_at: at(from), ended_at: to === null ? null : at(to), until: null, child: null, attempts: [], result: null, error: null, ...more,
});
const titles = (page: Page) => page.locator("[data-row]").evaluateAll((all) => all.map((one) => one.getAttribute("title")));

it("calls a run that is tried again what it is, also where the next attempt is near", async () => {
  const id = await lab.order("again");
  const failed = { number: 1, began_at: at(-3), failed_at: at(-2), next_at: at(600), error: { message: "no answer", detail: {} } };
  const context = await told(id, {}, [step("step", "pay", -3, null, { state: "retrying", attempts: [failed] })], { kind: "retry", status: "waiting", step: "pay", attempt: 2, at: at(600), text: "step pay failed: attempt 2 comes soon" });
  const page = await lab.page(`/runs/${id}`, "light", context);
  await page.locator("main h1 + [data-state=retrying]").waitFor();
  await page.getByRole("button", { name: "Retry now…" }).waitFor();
  await page.getByText("pay (1 attempt)").waitFor();
  // In the list too.
  await context.route("**/api/v1/runs?*", async (route) => {
    const found = (await (await route.fetch()).json()) as { items: object[] };
    await route.fulfill({ json: { ...found, items: found.items.map((run) => ({ ...run, status: "ready", attempt: 2, due_at: at(600), waiting_for: null })) } });
  });
  await page.goto(`${lab.url}/runs?def=order`);
  await page.getByRole("list", { name: "Runs" }).locator("[data-state=retrying]").first().waitFor();
});

it("says when a run was created, is due, was started and finished, and not that one has begun which has not", async () => {
  const later = await lab.run({ definition: "ship", input: "shelf 3", delay_ms: 3_600_000 }, "ready");
  const page = await lab.page(`/runs/${later}`);
  await page.getByText(/^due in (5\d min|1 h)$/).waitFor();
  expect(await page.locator("main").innerText()).not.toMatch(/\bstarted\b/);
  const done = await lab.run({ definition: "check_stock", input: 1 }, "completed");
  await page.goto(`${lab.url}/runs/${done}`);
  await page.getByText(/^finished (now|\d+ s ago)$/).waitFor();
  await page.getByText(/^started (now|\d+ s ago)$/).waitFor();
  // A job records no step: until a node took it, it was in line. That may be less than a millisecond.
  expect(await page.getByRole("img", { name: /^Time:/ }).getAttribute("aria-label")).toMatch(/^Time: ([\d.]+ m?s in line, )?[\d.]+ m?s running$/);
});

it("does not count as time in line what a run waited for its own time", async () => {
  const id = await lab.run({ definition: "ship", input: "shelf 3", delay_ms: 200 }, "completed");
  const page = await lab.page(`/runs/${id}`);
  await page.getByText(/^was due (now|\d+ s ago)$/).waitFor();
  expect(await page.getByRole("img", { name: /^Time:/ }).getAttribute("aria-label")).toMatch(/^Time: 2\d\d ms before it was due, /);
});

it("calls what a run was before it was tried again what it was", async () => {
  const id = await lab.run({ definition: "check_stock", input: 1, delay_ms: 3_600_000 }, "ready");
  await lab.api(`/runs/${id}/cancel`, { reason: "not now" });
  await lab.until(id, "cancelled");
  await lab.api(`/runs/${id}/retry`, { reason: "now" });
  await lab.until(id, "completed");
  const page = await lab.page(`/runs/${id}`);
  await page.getByText(/^tried again (now|\d+ s ago)$/).waitFor();
  await expect.poll(() => page.getByRole("img", { name: /^Time:/ }).getAttribute("aria-label")).toMatch(/^Time: [\d.]+ m?s before it was tried again, /);
});

it("counts as paused what a run waited while it was", async () => {
  const id = await lab.order("held");
  await lab.api(`/runs/${id}/pause`, { reason: "look at it first" });
  await lab.until(id, "paused");
  const page = await lab.page(`/runs/${id}`);
  await expect.poll(() => page.getByRole("img", { name: /^Time:/ }).getAttribute("aria-label")).toMatch(/waiting, .+ paused$/);
});

it("says calmly that a run was cancelled, and only once", async () => {
  const id = await lab.order("calm");
  await lab.api(`/runs/${id}/cancel`, { reason: "the customer called" });
  await lab.until(id, "cancelled");
  const page = await lab.page(`/runs/${id}`);
  await page.getByText("the customer called").waitFor();
  expect(await page.locator("main").innerText()).not.toMatch(/cancelled: (cancelled|the customer)/i);
});

it("does not move what somebody is about to press, on a telephone neither", async () => {
  const id = await lab.order("still");
  // What waits for an answer for more than a second is drawn without it, and moves when it comes.
  const context = await lab.unhurried();
  await context.addInitScript(() => {
    const moved = window as unknown as { moved: number };
    moved.moved = 0;
    new PerformanceObserver((list) => {
      for (const one of list.getEntries() as unknown as { value: number; hadRecentInput: boolean }[]) if (!one.hadRecentInput) moved.moved += one.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  const page = await lab.page("/settings", "light", context);
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 820 });
    const forks = page.waitForResponse(/\/runs\?tag=outlast\.fork-of/);
    await page.goto(`${lab.url}/runs/${id}`);
    await page.getByText("waiting for event approval").waitFor();
    // The list of forks comes, and the clock ticks.
    await (await forks).finished();
    for (let tick = 0; tick < 2; tick++) {
      const [created, before] = [page.getByText(/^created /), await page.getByText(/^created /).innerText()];
      await expect.poll(() => created.innerText()).not.toBe(before);
    }
    expect(await page.evaluate(() => (window as unknown as { moved: number }).moved), String(width)).toBeLessThan(0.05);
  }
});

it("chooses a stretch of a run by its edges, also by keyboard", async () => {
  // One that has ended: what goes on moves the edges with the time, from under whoever takes them.
  const id = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const page = await lab.page(`/runs/${id}`);
  const first = page.getByRole("slider", { name: "From here on is shown" });
  await page.getByText("5 operations").waitFor();
  await first.focus();
  await page.keyboard.press("Shift+ArrowRight");
  await page.waitForURL(/zoom=\d+-\d+/);
  // The address comes first, and is drawn then.
  await expect.poll(async () => Number(await first.getAttribute("aria-valuenow"))).toBeGreaterThan(0);
  const before = Number(await first.getAttribute("aria-valuenow"));
  const last = page.getByRole("slider", { name: "Up to here is shown" });
  const box = (await last.boundingBox())!;
  await page.mouse.move(box.x + 5, box.y + 7);
  await page.mouse.down();
  await page.mouse.move(box.x - 95, box.y + 7, { steps: 4 });
  await page.mouse.up();
  await expect.poll(async () => (await last.boundingBox())!.x).toBeLessThan(box.x - 50);
  expect(Number(await first.getAttribute("aria-valuenow"))).toBe(before);
  await page.getByTitle("The whole run.").dblclick({ position: { x: 30, y: 7 } });
  await page.waitForURL((url) => !url.search.includes("zoom"));
});

it("moves with the time while something works, without drawing anew, and not where somebody wants no motion", async () => {
  const id = await lab.order("moving");
  const context = await told(id, { status: "running", node: "node_1", created_at: at(-9) }, [step("step", "pack", -9, -5), step("child", "ship", -5, null)], { kind: "held", status: "running", text: "node x works on it" });
  const page = await lab.page(`/runs/${id}`, "light", context);
  await page.locator("[data-row]").nth(1).waitFor();
  /// In how many of sixty frames the edge is elsewhere, how many seconds they take, and how often a row is drawn meanwhile.
  const motion = () => page.evaluate(() => new Promise<{ moved: number; drawn: number; seconds: number }>((resolve) => {
    const timeline = document.querySelector<HTMLElement>("section[aria-label=Timeline]")!;
    let drawn = 0;
    new MutationObserver(() => drawn++).observe(timeline.querySelector("[data-row='1']")!, { subtree: true, attributes: true, characterData: true });
    const [seen, began] = [new Set<string>(), performance.now()];
    const look = (frame: number) => {
      seen.add(timeline.style.getPropertyValue("--k"));
      if (frame < 60) requestAnimationFrame(() => look(frame + 1));
      else resolve({ moved: seen.size, drawn, seconds: (performance.now() - began) / 1000 });
    };
    look(0);
  }));
  const { moved, drawn, seconds } = await motion();
  expect(moved).toBeGreaterThan(30);
  // With the second, and once for whatever has come in between.
  expect(drawn).toBeLessThanOrEqual(Math.ceil(seconds) + 2);
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.reload();
  await page.locator("[data-row]").nth(1).waitFor();
  expect((await motion()).moved).toBe(1);
});

it("shows operations of one scope below it, and closes them", async () => {
  const id = await lab.order("scopes");
  const page = await lab.page(`/runs/${id}`, "light", await told(id, {}, [step("step", "left/pay", -9, -8), step("step", "right/pay", -9, -7), step("step", "left/ship", -8, -6), step("step", "done", -6, -5)]));
  await expect.poll(() => titles(page)).toEqual(["left: 2 operations", "step left/pay: completed", "step left/ship: completed", "step right/pay: completed", "step done: completed"]);
  await page.getByTitle("left: 2 operations").click();
  await expect.poll(() => titles(page)).toEqual(["left: 2 operations", "step right/pay: completed", "step done: completed"]);
  await page.getByText("4 operations").waitFor();
});

it("opens a child at the step that somebody chose of it, and says of one that it has none", async () => {
  const id = await lab.order("child");
  await lab.api(`/runs/${id}/events`, { name: "approval", data: { by: "e2e", ok: true } });
  await lab.until(id, "completed");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Steps of the child" }).click();
  await page.getByRole("link", { name: /pack/ }).click();
  await page.waitForURL((url) => url.search.includes("step=step") && !url.pathname.endsWith(id));
  await page.getByRole("complementary", { name: "Step pack" }).waitFor();
  const stock = await lab.run({ definition: "stocktaking", input: 1 }, "completed");
  await page.goto(`${lab.url}/runs/${stock}`);
  await page.getByRole("button", { name: "Steps of the child" }).click();
  await page.getByText("no steps").waitFor();
});

it("keeps in the address which children and which idle stretches are open", async () => {
  const id = await lab.run({ definition: "stocktaking", input: 3 }, "completed");
  const { items } = await lab.api<{ items: { child: string | null }[] }>(`/runs/${id}/steps`);
  const children = items.flatMap((one) => one.child ?? []);
  const began = Date.parse((await lab.api<{ created_at: string }>(`/runs/${id}`)).created_at) / 1000 - Date.now() / 1000;
  // Two hours of nothing between the first children and the last, and an hour before them.
  const steps = [3600, 3600, 10_801].map((from, nth) => step("child", `c${nth}`, began + from, began + from + 1, { child: children[nth] }));
  const context = await told(id, { finished_at: at(began + 10_802) }, steps);
  const page = await lab.page(`/runs/${id}`, "light", context);
  const [toggles, wide] = [page.getByRole("button", { name: "Steps of the child" }), page.getByTitle("Idle time. Click to make it narrow.")];
  // One right after the other: neither is lost.
  for (const nth of [0, 2]) await toggles.nth(nth).click();
  await page.getByTitle("Idle time. Click to show all of it.").filter({ hasText: "1 h" }).click();
  const ends = [children[0]!, children[2]!].map((child) => child.slice(-8));
  await page.waitForURL((url) => url.searchParams.get("open") === ends.join(".") && url.searchParams.get("bands") === "0");
  const same = await lab.page(new URL(page.url()).pathname + new URL(page.url()).search, "light", context);
  for (const one of [page, same]) {
    const state = () => one.getByRole("button", { name: "Steps of the child" }).evaluateAll((all) => all.map((toggle) => toggle.getAttribute("aria-expanded")));
    await expect.poll(state).toEqual(["true", "false", "true"]);
    await expect.poll(() => one.getByTitle("Idle time. Click to make it narrow.").allInnerTexts()).toEqual([expect.stringContaining("1 h")]);
  }
  // Another tab and back, and everything closed again.
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("link", { name: "Timeline" }).click();
  await wide.click();
  for (const nth of [2, 0]) await toggles.nth(nth).click();
  await page.waitForURL((url) => !url.searchParams.has("open") && !url.searchParams.has("bands"));
  await page.locator("h1").click();
  await page.keyboard.press("e");
  await page.waitForURL((url) => url.searchParams.get("open") === "all");
  await expect.poll(() => page.locator("[data-toggle][aria-expanded=true]").count()).toBe(3);
});

it("says that it does not open all of very many children", async () => {
  const id = await lab.order("many");
  const children = Array.from({ length: 60 }, (_, nth) => step("child", `c${nth}`, -9, -8, { child: `run_${String(nth).padStart(26, "0")}` }));
  const context = await told(id, {}, children);
  await context.route("**/api/v1/runs/run_0000*/steps?*", (route) => route.fulfill({ json: { items: [], total: 0, next_after: null } }));
  const page = await lab.page(`/runs/${id}`, "light", context);
  await page.locator("[data-row]").first().waitFor();
  await page.locator("h1").click();
  await page.keyboard.press("e");
  await page.getByText("50 of 60 children are open").waitFor();
  await page.keyboard.press("w");
  await page.getByText("children are open").waitFor({ state: "detached" });
});

it("tells what an error is, what lies behind it, and which others are like it", async () => {
  const id = await lab.run({ definition: "pay_invoice", input: "told" }, "failed");
  const { error, failure } = await lab.api<{ error: { message: string }; failure: string }>(`/runs/${id}`);
  const detail = { own: { message: error.message, value: { message: error.message, type: "Declined", causes: ["no money", "errno 7"], stack: "at bank.rs:7" } } };
  const page = await lab.page(`/runs/${id}?step=step:pay`, "light", await told(id, {}, [step("step", "pay", -9, -8, { state: "failed", error: { message: error.message, detail } })]));
  const panel = page.getByRole("complementary", { name: "Step pay" });
  await panel.getByText("Declined", { exact: true }).waitFor();
  expect(await panel.getByRole("listitem").allInnerTexts()).toEqual(["no money", "errno 7"]);
  await panel.getByText("at bank.rs:7", { exact: true }).waitFor();
  expect(await panel.getByRole("link", { name: "others like it" }).getAttribute("href")).toBe(`/errors/${failure}`);
});

it("keeps in the address what is shown of the history and of the log", async () => {
  const id = await lab.order("address");
  const page = await lab.page(`/runs/${id}?tab=history`);
  await page.getByLabel("Kind").selectOption("event");
  await page.waitForURL(/kind=event/);
  // Until when, and not how many microseconds that is.
  await page.getByRole("row").filter({ hasText: "approval" }).getByText(/^until (\d+ \w+ )?\d\d:\d\d:\d\d \(in (5\d min( \d+ s)?|1 h)\)/).waitFor();
  const same = await lab.page(`/runs/${id}?tab=history&kind=event`);
  await same.getByRole("row").filter({ hasText: "approval" }).waitFor();
  await expect.poll(() => same.getByRole("row").count()).toBe(2);
  await page.getByRole("link", { name: "Logs" }).click();
  await page.getByLabel("Lines with these letters").pressSequentially("charged");
  await page.getByLabel("At least").selectOption("info");
  await page.waitForURL(/level=info/);
  await page.waitForURL(/text=charged/);
  await same.goto(page.url());
  await same.getByText("1 line", { exact: true }).waitFor();
  expect(await same.getByLabel("At least").inputValue()).toBe("info");
  expect(await same.getByLabel("Lines with these letters").inputValue()).toBe("charged");
});

it("copies the path of any value, sorts keys, and shows bytes as how many and what they are", async () => {
  const png = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.from(Array.from({ length: 200 }, (_, nth) => (nth * 73) % 256))]).toString("base64");
  const { id } = await lab.api<{ id: string }>("/runs", { definition: "order", input: { item: "x", cents: 1, lines: [{ name: "a", png }] }, delay_ms: 3_600_000 });
  const page = await lab.page(`/runs/${id}`, "light", await lab.unhurried());
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const input = page.getByRole("region", { name: "input" });
  await input.getByText("PNG image, 208 B").waitFor();
  expect(await input.innerText()).not.toContain(png);
  await input.getByRole("button", { name: "show" }).click();
  await input.getByText(png).waitFor();
  await input.getByRole("button", { name: '"name"' }).click();
  await input.getByRole("button", { name: "Copy path lines[0].name" }).click();
  await input.getByText("copied").waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("lines[0].name");
  const keys = async () => [...(await input.innerText()).matchAll(/"(item|cents|lines)":/g)].map(([, key]) => key);
  expect(await keys()).toEqual(["item", "cents", "lines"]);
  await page.getByRole("button", { name: "sort keys" }).click();
  await expect.poll(keys).toEqual(["cents", "item", "lines"]);
});
