// How it looks, in both themes, against pictures that somebody has looked at: `OUTLAST_UPDATE=1 npm run e2e -- looks` takes
// them anew. What is shown is always the same (answers written here, a clock that stands), but machines have other fonts:
// pictures are compared in squares of eight pixels by their colour, and a few squares may differ.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab, type Theme } from "./lab";

const PICTURES = fileURLToPath(new URL("pictures/", import.meta.url));
const NOW = Date.parse("2027-03-14T12:00:00Z");
/// The size of a square; how far its colour may be off (of 255); how many of a hundred squares may be further off.
const [SQUARE, OFF, FEW] = [8, 28, 4];

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

const ago = (seconds: number) => new Date(NOW - 1000 * seconds).toISOString();
const id = (nth: number) => `run_0000000000000000000000000${nth}`;
const STATUSES = ["running", "waiting", "ready", "paused", "blocked", "completed", "failed", "cancelled"];
const run = (nth: number) => ({
  id: id(nth), definition: ["order", "pay_invoice", "remind"][nth % 3], version: 1 + (nth % 2), key: nth % 2 ? `key-${nth}` : null, status: STATUSES[nth], queue: "default", priority: 5,
  attempt: 1 + (nth % 4), created_at: ago(60 * nth + 5), due_at: ago(1), expires_at: null, finished_at: nth > 4 ? ago(60 * nth) : null, node: null, tenant: "", owner: "ann", reason: null,
  cancel_reason: null, pause_reason: null, parent: null, tags: { city: "Bern" }, doing: [], input: { item: "canoe", cents: 89_900 }, output: nth === 5 ? "done" : null,
  error: nth === 6 ? { message: "the bank declined it", detail: {} } : null, failure: nth === 6 ? "f" : null,
  ...(STATUSES[nth] === "waiting" ? { waiting_for: { on: "event", name: "approval", since: ago(45), until: null, run: null, attempt: null } } : {}),
});
const step = (op: string, name: string, from: number, to: number | null, more: object = {}) => ({
  op, name, state: to === null ? "waiting" : "completed", began_at: ago(from), ended_at: to === null ? null : ago(to), until: null, child: null, attempts: [], result: "ok", error: null, ...more,
});
const failed = { number: 1, began_at: ago(64), failed_at: ago(63), next_at: ago(62), error: { message: "no answer", detail: {} } };
const steps = [step("step", "reserve", 65, 64), step("step", "charge", 64, 60, { attempts: [failed] }), step("event", "approval", 60, 20), step("sleep", "pause", 20, 12), step("step", "ship", 12, 5)];
const points = Array.from({ length: 60 }, (_, at) => ({
  at: ago(60 * (60 - at)), completed: (at * 7) % 23, failed: at % 9 ? 0 : 3, cancelled: at % 13 ? 0 : 1, p50_ms: 400 + 90 * (at % 5), p95_ms: 1500 + 300 * (at % 7), wait_p50_ms: 100 * (at % 4), wait_p95_ms: 200 * (at % 11), queued: (at * 3) % 17, running: 2, queue_wait_ms: 200 * (at % 11),
}));
const queue = (name: string, due: number, limit: number | null, state = "open") => ({
  name, state, since: null, due, later: 1, running: 2, waiting: 3, oldest_due_at: due ? ago(90) : null, rate_state: null, own_rules: false, changes: 1,
  rules: { limit, per_node: null, per_group: null, rate: null, rate_per_group: null, fair: false, ordered: false },
});
const group = { fingerprint: "f", definition: "pay_invoice", tenant: "", message: "the bank declined it", step: "charge", versions: [2, 1], runs: 12, runs_in_range: 12, points: [], first_at: ago(7000), last_at: ago(360), last_run: id(6) };

/// What the API answers, by the beginning of its path.
const ANSWERS: [string, unknown][] = [
  ["/me", { actor: "ann", role: "admin", capabilities: ["read", "start", "operate", "admin"], tenant: null }],
  ["/runs/count", { count: 8, capped: false }], [`/runs/${id(5)}/steps`, { items: steps, total: steps.length, next_after: null }], [`/runs/${id(5)}`, { ...run(5), created_at: ago(66), finished_at: ago(5) }],
  ["/runs", { items: STATUSES.map((_, nth) => run(nth)), next_cursor: null, prev_cursor: null }],
  ["/stats/summary", { range_ms: 3_600_000, running: 3, queued: 14, scheduled: 3, waiting: 120, stopped: 2, oldest_due_at: ago(90), completed: 1234, failed: 12, cancelled: 4, p50_ms: 480, p95_ms: 2100 }],
  ["/stats/series", { step_ms: 60_000, points }], ["/errors", { items: [group] }], ["/queues", { items: [queue("default", 14, null), queue("stock", 0, 4)] }],
  ["/schedules", { items: [] }], ["/nodes", { items: [{ id: "n", name: "web-1", host: "web-1", pid: 7, joined_at: ago(900), lease_until: new Date(NOW + 9000).toISOString(), holds: 3, queues: [], codes: ["order@1"], slots: 256, about: { version: "1.0.0" } }] }],
];

async function opened(path: string, theme: Theme): Promise<Page> {
  const context = await lab.somebody(theme);
  const page = await context.newPage();
  await page.setViewportSize({ width: 1120, height: 640 });
  await page.clock.setFixedTime(NOW);
  await page.route("**/version", (route) => route.fulfill({ json: { version: "1.0.0", api: "v1", store: "sqlite" }, headers: { date: new Date(NOW).toUTCString() } }));
  await page.route("**/readyz", (route) => route.fulfill({ json: { status: "ok", checks: [] }, headers: { date: new Date(NOW).toUTCString() } }));
  await page.route("**/api/v1/**", async (route) => {
    const url = new URL(route.request().url());
    const rest = url.pathname.slice("/api/v1".length);
    // The server knows none of these runs.
    if (rest === "/live") return await route.continue({ url: `${url.origin}${url.pathname}?topics=runs` });
    // Nothing was forked.
    if (url.searchParams.has("tag")) return await route.fulfill({ json: { items: [], next_cursor: null, prev_cursor: null } });
    const found = ANSWERS.find(([begin]) => rest === begin);
    await route.fulfill(found ? { json: found[1], headers: { date: new Date(NOW).toUTCString() } } : { status: 404, json: { code: "not_found", detail: rest } });
  });
  await page.goto(lab.url + path);
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  return page;
}

/// Which part of a hundred of the squares is of another colour.
async function difference(page: Page, before: Buffer, after: Buffer): Promise<number> {
  return await page.evaluate(async ([one, other, square, off]) => {
    const pixels = async (data: string) => {
      const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
      const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
      const canvas = new OffscreenCanvas(Math.floor(image.width / square), Math.floor(image.height / square));
      const context = canvas.getContext("2d")!;
      context.imageSmoothingQuality = "high";
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      return context.getImageData(0, 0, canvas.width, canvas.height).data;
    };
    const [a, b] = [await pixels(one), await pixels(other)];
    if (a.length !== b.length) return 100;
    let differing = 0;
    for (let at = 0; at < a.length; at += 4) if ([0, 1, 2].some((part) => Math.abs(a[at + part]! - b[at + part]!) > off)) differing++;
    return (differing * 400) / a.length;
  }, [before.toString("base64"), after.toString("base64"), SQUARE, OFF] as const);
}

for (const theme of ["light", "dark"] as Theme[]) {
  for (const [name, path, shown] of [["overview", "/", "declined"], ["runs", "/runs", "key-7"], ["run", `/runs/${id(5)}`, "approval"]] as const) {
    it(`${name} looks in ${theme} as it did when somebody looked at it`, async () => {
      const page = await opened(path, theme);
      await page.locator("main").getByText(shown).first().waitFor();
      await page.evaluate(() => document.fonts.ready);
      let now = await page.screenshot({ animations: "disabled" });
      const file = `${PICTURES}${name}-${theme}.png`;
      if (process.env.OUTLAST_UPDATE) {
        // Once everything has come.
        for (let before: Buffer = Buffer.alloc(0); !now.equals(before); ) [before, now] = [now, await page.screenshot({ animations: "disabled" })];
        mkdirSync(PICTURES, { recursive: true });
        writeFileSync(file, now);
      }
      expect(existsSync(file), `${file} is missing: OUTLAST_UPDATE=1 makes it`).toBe(true);
      const before = readFileSync(file);
      // What has to come from elsewhere on the page may come later than what was waited for.
      await expect.poll(async () => {
        now = await page.screenshot({ animations: "disabled" });
        const share = await difference(page, before, now);
        if (share > FEW) writeFileSync(`${file}.now.png`, now);
        else rmSync(`${file}.now.png`, { force: true });
        return share;
      }, { message: `of a hundred squares: compare ${file} with ${file}.now.png`, interval: 500, timeout: 30_000 }).toBeLessThanOrEqual(FEW);
      // The other theme is another picture: the measure sees what it has to see.
      const other = `${PICTURES}${name}-${theme === "light" ? "dark" : "light"}.png`;
      if (existsSync(other)) expect(await difference(page, readFileSync(other), now)).toBeGreaterThan(50);
      await page.context().close();
    });
  }
}
