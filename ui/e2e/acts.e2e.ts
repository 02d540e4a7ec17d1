// What is done to single runs, by the state that they are in, and what a page does when something goes wrong on the way.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

const state = (page: Page, word: string) => page.locator(`main [data-state=${word}]`).first().waitFor();
/// One of those that are not the likeliest.
async function more(page: Page, action: string) {
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: action }).click();
}

it("shows an undo where it was done, apart from what it undid, and none where nothing was undone", async () => {
  const waits = await lab.run({ definition: "trip", input: "Bern" }, "waiting");
  const page = await lab.page(`/runs/${waits}`);
  await page.getByText("4 operations").waitFor();
  expect(await page.getByRole("button", { name: /undo/ }).count()).toBe(0);

  const failed = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  await page.goto(`${lab.url}/runs/${failed}`);
  await page.getByText("5 operations").waitFor();
  const rows = () => page.locator("[data-row]").evaluateAll((all) => all.map((one) => one.getAttribute("title")));
  await expect.poll(rows).toEqual(["step hotel: completed", "step flight: completed", "step insurance: failed", "undo flight: completed", "undo hotel: completed"]);
  await page.locator('[data-row][title^="undo hotel"]').click();
  await page.waitForURL(/step=undo(:|%3A)hotel/);
  await page.getByRole("complementary", { name: "Step undo hotel" }).getByRole("log").getByText("given back").waitFor();
  expect(await page.locator("[data-row][aria-pressed=true]").count()).toBe(1);
  expect(await page.getByRole("button", { name: "Fork from here…" }).count()).toBe(0);
  await page.locator('[data-row][title^="step hotel"]').click();
  await page.getByRole("complementary", { name: "Step hotel" }).getByRole("log").getByText("booked").waitFor();
  expect(await page.getByText("given back").count()).toBe(0);
  expect(await page.locator("[data-row][aria-pressed=true]").getAttribute("title")).toContain("step hotel");
});

it("settles the promise that a run waits for", async () => {
  const id = await lab.run({ definition: "trip", input: "Basel" }, "waiting");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Settle promise…" }).click();
  expect(await page.getByRole("textbox", { name: "Name" }).inputValue()).toBe("visa");
  await page.getByRole("textbox", { name: "Data" }).fill("true");
  await page.getByLabel(/Reason/).fill("the embassy called");
  await page.getByRole("button", { name: "Settle", exact: true }).click();
  await state(page, "completed");
  await page.getByRole("group", { name: "Steps" }).getByTitle("settled").waitFor();
  await page.getByText("a seat in Basel and a room in Basel are waiting").first().waitFor();
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("row").filter({ hasText: "operator" }).filter({ hasText: "the embassy called" }).waitFor();
});

it("says what a cancel would revert, and how a promise is settled elsewhere", async () => {
  const id = await lab.run({ definition: "trip", input: "Chur" }, "waiting");
  const page = await lab.page(`/runs/${id}`);
  await page.getByText(`outlast settle ${id} visa --data JSON`).waitFor();
  await more(page, "Cancel…");
  await page.getByRole("dialog").getByText(/^Reverted, in this order, where its code says how:/).waitFor();
  await page.getByRole("dialog").getByText("hotel", { exact: true }).waitFor();
});

it("offers the fields of the last event of a name, empty, and sends what is written into them", async () => {
  const before = await lab.order("desk");
  await lab.api(`/runs/${before}/events`, { name: "approval", data: { by: "ann", ok: true } });
  await lab.until(before, "completed");
  const id = await lab.order("chair");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Send event…" }).click();
  await page.getByText("the run waits for approval").waitFor();
  const by = page.getByRole("textbox", { name: "by" });
  await by.waitFor();
  // Nobody approves in somebody else's name by a click.
  expect([await by.inputValue(), await page.getByRole("checkbox", { name: "ok" }).isChecked()]).toEqual(["", false]);
  await page.getByRole("checkbox", { name: "as JSON" }).check();
  await page.getByRole("textbox", { name: "Data" }).fill('{"by":');
  await page.getByText("this is none yet").waitFor();
  expect(await page.getByRole("button", { name: "Send", exact: true }).isDisabled()).toBe(true);
  await page.getByRole("textbox", { name: "Data" }).fill('{"by":"","ok":false}');
  await page.getByRole("checkbox", { name: "as JSON" }).uncheck();
  await by.fill("eve");
  await page.getByRole("checkbox", { name: "ok" }).check();
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await state(page, "completed");
  const { items } = await lab.api<{ items: { op: string; result: unknown }[] }>(`/runs/${id}/steps`);
  expect(items.find((step) => step.op === "event")?.result).toEqual({ by: "eve", ok: true });
});

it("shows each attempt of a step, when it began and what became of it", async () => {
  const id = await lab.order("lamp");
  const page = await lab.page(`/runs/${id}?step=step:charge`);
  const rows = page.getByRole("complementary", { name: "Step charge" }).getByRole("table").getByRole("row");
  await rows.nth(1).waitFor();
  expect(await rows.first().innerText()).toMatch(/#\s+Began\s+Took\s+Then waited\s+Error/);
  const told = await rows.allInnerTexts();
  expect(told.at(-1)).toMatch(/^\d\s+(\d+ \w+ )?\d\d:\d\d:\d\d\s+[\d.<]+ m?s\s+completed$/);
});

it("pauses a run, and resumes it", async () => {
  const id = await lab.order("held");
  const page = await lab.page(`/runs/${id}`);
  await page.getByText("waiting for event approval").waitFor();
  await more(page, "Pause…");
  await page.getByLabel(/Reason/).fill("a test wants it");
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await state(page, "paused");
  await page.getByText(/^Paused by .+ (now|\d+ s ago): a test wants it$/).waitFor();
  await page.getByRole("button", { name: "Resume…" }).click();
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await state(page, "waiting");
});

it("has a run that is to begin later begin at another time, and now", async () => {
  const id = await lab.run({ definition: "ship", input: "shelf 3", delay_ms: 86_400_000 }, "ready");
  const page = await lab.page(`/runs/${id}`);
  await state(page, "scheduled");
  await more(page, "Edit time…");
  await page.getByRole("dialog").getByLabel(/^Time/).fill("2099-03-01T12:00:00");
  await page.getByLabel(/Reason/).fill("no hurry");
  await page.getByRole("button", { name: "Edit time", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByText("1 Mar 12:00:00").first().waitFor();
  await page.getByRole("button", { name: "Run now…" }).click();
  await page.getByRole("dialog").getByText("By itself it goes on").waitFor();
  await page.getByRole("button", { name: "Run now", exact: true }).click();
  await state(page, "completed");
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("row").filter({ hasText: "operator" }).filter({ hasText: "no hurry" }).waitFor();
});

it("deletes a run that never began, after saying so, and offers it of none that did", async () => {
  const id = await lab.run({ definition: "ship", input: "shelf 3", delay_ms: 86_400_000 }, "ready");
  const page = await lab.page(`/runs/${id}`);
  await state(page, "scheduled");
  await more(page, "Delete…");
  await page.getByRole("dialog").getByText("It has not begun, and never will").waitFor();
  await page.getByLabel(/Reason/).fill("the wrong shelf");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL("**/runs");
  expect((await lab.ask(`/runs/${id}`)).status).toBe(404);

  await lab.api("/queues/stock/pause", {});
  const queued = await lab.run({ definition: "check_stock", input: 1, queue: "stock" }, "ready");
  await page.goto(`${lab.url}/runs/${queued}`);
  await state(page, "queued");
  await more(page, "Delete…");
  await page.getByRole("button", { name: "Not now" }).click();
  expect((await lab.ask(`/runs/${queued}`)).status).toBe(200);
  await more(page, "Delete…");
  await page.getByLabel(/Reason/).fill("nobody needs it");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL("**/runs");
  expect((await lab.ask(`/runs/${queued}`)).status).toBe(404);
  await lab.api("/queues/stock/resume", {});

  await page.goto(`${lab.url}/runs/${await lab.order("begun")}`);
  await page.getByText("waiting for event approval").waitFor();
  await page.getByText("3 operations").waitFor();
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: "Cancel…" }).waitFor();
  expect(await page.getByRole("button", { name: "Delete…" }).count()).toBe(0);
});

it("skips the timer that a run sleeps for, and not the next", async () => {
  const id = await lab.run({ definition: "heartbeat", input: 0 }, "waiting");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Skip timer…" }).click();
  await page.getByText("Later timers are left alone.").waitFor();
  await page.getByRole("button", { name: "Skip timer", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.locator('[data-row][title^="step beat#2"]').waitFor();
  await page.getByRole("button", { name: "Skip timer…" }).waitFor();
});

it("retries a run that failed, after saying what runs again", async () => {
  const id = await lab.run({ definition: "pay_invoice", input: "again" }, "failed");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Retry…" }).click();
  await page.getByText("recorded results stay").waitFor();
  await page.getByLabel(/Reason/).fill("the bank is open again");
  await page.getByRole("button", { name: "Retry", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("row").filter({ hasText: "operator" }).filter({ hasText: "the bank is open again" }).waitFor();
  await expect.poll(async () => (await lab.api<{ items: { op: string }[] }>(`/runs/${id}/history`)).items.some((entry) => entry.op === "revise")).toBe(true);
});

it("skips an undo that gave up, and goes on with the others", async () => {
  const id = await lab.run({ definition: "trip", input: "Atlantis" }, "undo_failed");
  const page = await lab.page(`/runs/${id}`);
  await page.getByText("skip the undo").waitFor();
  // It has given up, and does not look as if it were still trying.
  await page.locator('[data-row][title="undo flight: failed"]').waitFor();
  await more(page, "Skip this undo…");
  expect(await page.getByLabel("Undo of").inputValue()).toBe("flight");
  await page.getByLabel(/Reason/).fill("the seat was sold by hand");
  await page.getByRole("button", { name: "Skip", exact: true }).click();
  await state(page, "failed");
  await page.locator('[data-row][title="undo hotel: completed"]').waitFor();
  await page.locator('[data-row][title="undo flight: completed"]').waitFor();
});

it("opens a fork of a run that goes on without complaint", async () => {
  const id = await lab.order("goes on");
  const page = await lab.page(`/runs/${id}`);
  await page.getByText("waiting for event approval").waitFor();
  await more(page, "Fork from a step…");
  await expect.poll(() => page.getByRole("combobox", { name: "From" }).inputValue()).toBe("event:approval");
  await page.getByRole("dialog").getByText("recorded results stay").waitFor();
  expect(await page.getByRole("dialog").getByRole("alert").count()).toBe(0);
});

it("forks from the last thing of a run also where its steps come later than the dialog", async () => {
  const id = await lab.order("late steps");
  const context = await lab.somebody();
  let come = () => {};
  const came = new Promise<void>((resolve) => (come = resolve));
  await context.route(`**/api/v1/runs/${id}/steps?*`, async (route) => {
    await came;
    await route.continue();
  });
  const page = await lab.page(`/runs/${id}`, "light", context);
  await page.getByText("waiting for event approval").waitFor();
  await more(page, "Fork from a step…");
  const from = page.getByRole("combobox", { name: "From" });
  await from.waitFor();
  expect(await from.isDisabled()).toBe(true);
  come();
  await expect.poll(() => from.inputValue()).toBe("event:approval");
  await page.getByRole("dialog").getByText("recorded results stay").waitFor();
  await context.close();
});

it("sends no mark of what is hidden as if it were the value", async () => {
  const id = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const context = await lab.somebody();
  const hide = async (run: object) => ({ ...run, input: { to: "[redacted]" } });
  await context.route(`**/api/v1/runs/${id}?preview=*`, async (route) => route.fulfill({ json: await hide(await (await route.fetch()).json()) }));
  await context.route("**/api/v1/runs?def=trip&limit=1", async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, items: await Promise.all(answer.items.map(hide)) } });
  });
  const page = await lab.page(`/runs/${id}`, "light", context);
  // It is shown as what it is, and not as a text that somebody wrote.
  await page.getByRole("region", { name: "input" }).getByTitle("The server hides this value").waitFor();
  expect(await page.getByRole("region", { name: "input" }).innerText()).not.toContain("[redacted]");
  await more(page, "Rerun…");
  const rerun = page.getByRole("button", { name: "Rerun", exact: true });
  // What was not touched is not sent: the run has it.
  await expect.poll(() => rerun.isEnabled()).toBe(true);
  await lab.writeInput(page, '{"to":"[redacted]","more":1}');
  await page.getByText("hidden from you").waitFor();
  expect(await rerun.isDisabled()).toBe(true);
  await lab.writeInput(page, '{"to":"Bern","more":1}');
  await expect.poll(() => rerun.isEnabled()).toBe(true);

  await page.goto(`${lab.url}/definitions/trip`);
  await page.getByRole("button", { name: "Start…" }).click();
  await page.getByText("hidden from you").waitFor();
  expect(await page.getByRole("button", { name: "Start", exact: true }).isDisabled()).toBe(true);
  await lab.writeInput(page, '"Bern"');
  await expect.poll(() => page.getByRole("button", { name: "Start", exact: true }).isEnabled()).toBe(true);
});

it("asks for a page that could not be had again when somebody says so, and not before", async () => {
  for (let nth = 0; nth < 120; nth++) await lab.api("/runs", { definition: "remind", input: "later", delay_ms: 3_600_000 });
  const context = await lab.somebody();
  let asked = 0;
  const refuse = /\/api\/v1\/runs\?.*cursor=/;
  await context.route(refuse, async (route) => {
    asked++;
    await route.fulfill({ status: 400, contentType: "application/problem+json", json: { code: "timeout", detail: "it took too long" } });
  });
  const page = await lab.page("/runs?def=remind", "light", context);
  // Nothing else asks meanwhile.
  await page.getByRole("button", { name: "Live updates: live" }).click();
  await page.getByRole("listitem").first().waitFor();
  const main = page.locator("#main");
  await expect.poll(async () => {
    await main.evaluate((box) => box.scrollTo({ top: box.scrollHeight }));
    return await page.getByRole("button", { name: "Try again" }).count();
  }).toBe(1);
  const before = asked;
  for (const top of [0, 1e6]) await main.evaluate((box, to) => new Promise((done) => (box.scrollTo({ top: to }), requestAnimationFrame(() => requestAnimationFrame(done)))), top);
  expect(asked).toBe(before);
  await context.unroute(refuse);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("button", { name: "Try again" }).waitFor({ state: "detached" });
  await expect.poll(() => page.getByRole("list", { name: "Runs" }).evaluate((list) => list.getBoundingClientRect().height)).toBeGreaterThan(115 * 36);
});

it("shows what a child does as it does it, once it was opened", async () => {
  const id = await lab.order("with a child");
  const context = await lab.somebody();
  const early = new Set<string>();
  // As if it had been opened before it did anything.
  await context.route("**/api/v1/runs/*/steps?*", async (route) => {
    const run = new URL(route.request().url()).pathname.split("/").at(-2)!;
    if (run === id || early.has(run)) return await route.continue();
    early.add(run);
    await route.fulfill({ json: { items: [], total: 0, next_after: null } });
  });
  const page = await lab.page(`/runs/${id}`, "light", context);
  await lab.api(`/runs/${id}/events`, { name: "approval", data: { by: "e2e", ok: true } });
  await page.getByRole("button", { name: "Steps of the child" }).click();
  await page.getByText("pack", { exact: true }).waitFor();
});

it("opens a stretch of idle time, and closes it again", async () => {
  const id = await lab.order("idle");
  const page = await lab.page(`/runs/${id}`);
  // On a busy machine it may have been idle before, too.
  const [narrow, open] = [page.getByTitle("Idle time. Click to show all of it."), page.getByTitle("Idle time. Click to make it narrow.")];
  await narrow.last().click();
  await open.click();
  await open.waitFor({ state: "detached" });
  await narrow.last().waitFor();
});

it("overrules nobody who changed limits while somebody else wrote theirs", async () => {
  const page = await lab.page("/queues/stock");
  await page.getByRole("button", { name: "Limits…" }).click();
  await page.getByLabel("At once, on all nodes together").fill("3");
  const changed = await fetch(`${lab.url}/api/v1/queues/stock/limits`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ limit: 9 }) });
  expect(changed.ok).toBe(true);
  await page.getByText("9 at once").waitFor();
  await page.getByRole("button", { name: "Set limits" }).click();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  expect(await lab.api("/queues/stock")).toMatchObject({ rules: { limit: 9 } });
  await fetch(`${lab.url}/api/v1/queues/stock/limits`, { method: "DELETE" });
});

it("says that no node serves a queue, on its page", async () => {
  const context = await lab.somebody();
  await context.route("**/api/v1/nodes", async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, items: answer.items.map((node: object) => ({ ...node, queues: ["other"] })) } });
  });
  const page = await lab.page("/queues/stock", "light", context);
  await page.getByText("No node serves this queue").first().waitFor();
  const other = await lab.page("/queues/stock");
  await other.locator("h1", { hasText: "stock" }).waitFor();
  expect(await other.getByText("No node serves this queue").count()).toBe(0);
});

it("keeps to UTC wherever a run's times stand, and failures to the definition in the address", async () => {
  const id = await lab.order("zone");
  const context = await lab.somebody();
  await context.addInitScript(() => localStorage.setItem("outlast.zone", "utc"));
  const page = await lab.page(`/runs/${id}?tab=history`, "light", context);
  await page.getByRole("cell", { name: / UTC$/ }).first().waitFor();
  await page.goto(`${lab.url}/runs/${id}?step=step:charge`);
  await page.getByRole("complementary", { name: "Step charge" }).getByRole("definition").filter({ hasText: / UTC$/ }).first().waitFor();
  await page.goto(`${lab.url}/runs/${id}?tab=logs`);
  await page.getByTitle(/ UTC$/).first().waitFor();
  await lab.run({ definition: "trip", input: "Luna" }, "failed");
  await page.goto(`${lab.url}/errors?def=trip`);
  await page.getByRole("link", { name: /nobody insures/ }).first().waitFor();
  expect(await page.getByRole("link", { name: /declined/ }).count()).toBe(0);
  await page.getByRole("button", { name: "24h", exact: true }).click();
  await page.waitForURL((url) => url.search.includes("def=trip") && url.search.includes("range=24h"));
});

it("offers nothing before it is known what a run waits for, so that no button becomes another one under somebody's finger", async () => {
  const id = await lab.order("slow");
  const context = await lab.somebody("light");
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await context.route("**/api/v1/runs/*/explain", async (route) => {
    await answered;
    await route.continue();
  });
  const page = await lab.page(`/runs/${id}`, "light", context);
  await page.getByText("charge", { exact: true }).first().waitFor();
  expect(await page.getByRole("button", { name: "Cancel…" }).count()).toBe(0);
  answer();
  await page.getByRole("button", { name: "Send event…" }).first().waitFor();
  await context.close();
});
