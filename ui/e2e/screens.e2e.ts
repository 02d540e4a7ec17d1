// How single screens behave: the timeline, the keyboard.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("looks closer at a stretch of the timeline, which stands in the address", async () => {
  const id = await lab.order("map");
  const page = await lab.page(`/runs/${id}`);
  const axis = page.getByTitle("Drag to look closer");
  // What is said above it comes when it is known, and moves it down: whoever misses it takes it again.
  await expect.poll(async () => {
    await axis.hover({ position: { x: 50, y: 24 } });
    const box = (await axis.boundingBox())!;
    await page.mouse.down();
    await page.mouse.move(box.x + 200, box.y + 24, { steps: 4 });
    await page.mouse.up();
    return page.url();
  }, { interval: 500 }).toMatch(/zoom=\d+-\d+/);
  await page.getByRole("button", { name: "show all" }).click();
  await page.waitForURL((url) => !url.search.includes("zoom"));
});

it("goes anywhere by keyboard", async () => {
  const page = await lab.page("/runs");
  await page.locator("h1", { hasText: "Runs" }).waitFor();
  // Both within a second, which a busy machine may not do the first time.
  await expect.poll(async () => {
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    return new URL(page.url()).pathname;
  }).toBe("/queues");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Jump to" }).fill("pay_inv");
  await page.getByRole("option", { name: "pay_invoice" }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/runs?def=pay_invoice");
  await page.keyboard.press("/");
  // The address comes first, and is drawn then: what it narrows the list to stays.
  await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("filter");
  await page.getByLabel("Remove def:pay_invoice").waitFor();
});

it("walks a list from run to run, and a timeline from step to step, by keyboard", async () => {
  // Orders of the samples come in between, and are gone some seconds later: these have a tag of their own.
  const order = (item: string) => lab.run({ definition: "order", input: { item, cents: 50_000 }, tags: { test: "walk" } }, "waiting");
  const [first, second] = [await order("walk one"), await order("walk two")];
  const page = await lab.page("/runs?status=waiting&tag=test%3Dwalk");
  await page.locator(`a[href="/runs/${second}"]`).click();
  await page.waitForURL(`**/runs/${second}`);
  // An address is there before its page.
  await page.locator("main").getByText(second).first().waitFor();
  await page.keyboard.press("]");
  await page.waitForURL(`**/runs/${first}`);
  await page.locator("main").getByText(first).first().waitFor();
  await page.keyboard.press("[");
  await page.waitForURL(`**/runs/${second}`);
  await page.locator("main").getByText(second).first().waitFor();
  expect(await page.title()).toBe(`order …${second.slice(-8)} – Outlast`);
  await page.getByRole("group", { name: "Steps" }).focus();
  for (const name of ["reserve", "charge"]) {
    await page.keyboard.press("ArrowDown");
    await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("title"))).toContain(name);
  }
  await page.keyboard.press("Enter");
  await page.getByRole("complementary", { name: "Step charge" }).waitFor();
  await page.keyboard.press("c");
  await page.getByRole("dialog", { name: /^Cancel order/ }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Jump to" }).fill("stock-ch");
  await page.getByRole("option", { name: "stock-check" }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/schedules/stock-check");
});

it("selects runs, also a range of them, and acts on those alone", async () => {
  const ids: string[] = [];
  // Orders of the samples would come in between.
  for (let i = 0; i < 4; i++) ids.push(await lab.run({ definition: "order", input: { item: `chosen ${i}`, cents: 50_000 }, tags: { test: "chosen" } }, "waiting"));
  const page = await lab.page("/runs?status=waiting&tag=test%3Dchosen");
  const box = (id: string) => page.getByRole("listitem").filter({ has: page.locator(`a[href="/runs/${id}"]`) }).getByRole("checkbox");
  await box(ids[3]!).click();
  await box(ids[1]!).click({ modifiers: ["Shift"] });
  await page.getByText("3 selected").waitFor();
  await page.getByRole("button", { name: "Act on them…" }).click();
  await page.getByLabel(/Reason/).fill("a test wants it");
  await page.getByRole("button", { name: "Cancel 3 runs" }).click();
  await page.waitForURL("**/bulk/run_*");
  for (const id of ids.slice(1)) await lab.until(id, "cancelled");
  expect(await lab.api(`/runs/${ids[0]}`)).toMatchObject({ status: "waiting" });
  await page.goBack();
  await page.getByLabel("Select all that are shown").click();
  await page.getByText(/selected/).waitFor();
  await page.keyboard.press("Escape");
  await page.getByText(/\d selected/).waitFor({ state: "detached" });
});

it("keeps views and columns that somebody chose, and looks further back when asked", async () => {
  await lab.run({ definition: "order", input: { item: "boat", cents: 50_000 }, tags: { size: "large" } }, "waiting");
  const page = await lab.page("/runs?def=order&tag=size%3Dlarge");
  await page.getByRole("button", { name: "Save this view…" }).click();
  await page.getByLabel("Name").fill("Large orders");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("link", { name: "All", exact: true }).click();
  await page.waitForURL("**/runs");
  await page.reload();
  await page.getByRole("link", { name: "Large orders" }).click();
  await page.waitForURL("**/runs?def=order&tag=size%3Dlarge");
  await page.getByLabel("Columns").click();
  await page.getByLabel("Owner").click();
  await page.waitForURL(/cols=[^&]*owner/);
  await page.getByText("local", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Search older" }).click();
  await page.waitForURL(/since=all/);
  await page.getByLabel("Remove since:all").waitFor();
  await page.getByRole("button", { name: "Forget the view Large orders" }).click();
  await page.getByRole("link", { name: "Large orders" }).waitFor({ state: "detached" });
  // A view has the columns with which it was saved.
  await page.goto(`${lab.url}/runs?def=order&cols=key,node`);
  await page.getByRole("button", { name: "Save this view…" }).click();
  await page.getByLabel("Name").fill("Where orders are");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("link", { name: "All", exact: true }).click();
  await page.getByRole("link", { name: "Where orders are" }).click();
  await page.waitForURL(/\/runs\?def=order&cols=key(,|%2C)node$/);
});

it("offers what can follow a field", async () => {
  const page = await lab.page("/runs");
  await page.getByLabel("Filter runs").fill("status:failed def:pay");
  await expect.poll(() => page.locator("#filter-hints option").evaluateAll((all) => all.map((one) => (one as HTMLOptionElement).value))).toEqual(["status:failed def:pay_invoice"]);
});

it("sets limits of a queue, purges it by its typed name, and counts before a backfill", async () => {
  const page = await lab.page("/queues/stock");
  await page.getByRole("button", { name: "Limits…" }).click();
  await page.getByLabel("At once, on all nodes together").fill("3");
  await page.getByRole("button", { name: "Set limits" }).click();
  await page.getByText("3 at once").waitFor();
  await page.getByRole("button", { name: "Limits…" }).click();
  await page.getByLabel("back to what code says").check();
  await page.getByRole("button", { name: "Use what code says" }).click();
  await page.getByText("2 at once").waitFor();

  const { id } = await lab.api<{ id: string }>("/runs", { definition: "check_stock", input: 1, queue: "stock", delay_ms: 3_600_000 });
  await page.getByRole("button", { name: "Purge…" }).click();
  const purge = page.getByRole("button", { name: /^Cancel \d+ run/ });
  await page.getByLabel(/Reason/).fill("a test wants it");
  await page.getByLabel("Type stock").fill("stoc");
  expect(await purge.isDisabled()).toBe(true);
  await page.getByLabel("Type stock").fill("stock");
  await purge.click();
  await page.waitForURL("**/bulk/run_*");
  await lab.until(id, "cancelled");

  await page.goto(`${lab.url}/schedules/stock-check`);
  await page.getByRole("button", { name: "Backfill…" }).click();
  await page.getByLabel("From").fill("2026-01-05T08:00:00");
  await page.getByLabel("Until before").fill("2026-01-05T08:01:00");
  await page.getByText("4 times lie in it").waitFor();
  await page.getByRole("button", { name: "Start up to 4 runs" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
});

it("purges a queue whose name has spaces, and no other", async () => {
  const later = { definition: "check_stock", input: 1, delay_ms: 3_600_000 };
  const { id } = await lab.api<{ id: string }>("/runs", { ...later, queue: "night shift" });
  const { id: other } = await lab.api<{ id: string }>("/runs", { ...later, queue: "night" });
  const page = await lab.page("/queues/night%20shift");
  await page.getByRole("button", { name: "Purge…" }).click();
  await page.getByLabel(/Reason/).fill("a test wants it");
  await page.getByLabel("Type night shift").fill("night shift");
  await page.getByRole("button", { name: "Cancel 1 runs" }).click();
  await page.waitForURL("**/bulk/run_*");
  await lab.until(id, "cancelled");
  expect(await lab.api(`/runs/${other}`)).toMatchObject({ status: "ready" });
  // In the list it stands with how many there were, and cannot be aborted any more.
  await page.locator("[data-state=completed]").waitFor();
  await page.getByRole("link", { name: "Bulk", exact: true }).first().click();
  const row = page.getByRole("row").filter({ hasText: "night shift" });
  await row.waitFor();
  expect(await row.innerText()).toMatch(/1 of 1\s+1\s+0\s+0/);
  expect(await row.getByRole("button").count()).toBe(0);
});

it("has five numbers on its first page, and each leads to its runs", async () => {
  await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const page = await lab.page("/?range=24h");
  const cards = page.locator("[data-card]");
  await cards.first().waitFor();
  const names = await cards.locator("span").allInnerTexts();
  expect(names.slice(0, 5)).toEqual(["Running", "Queued", "Waiting", "Failed in 24h", "Oldest queued"]);
  await cards.filter({ hasText: "Failed in 24h" }).click();
  await page.waitForURL("**/runs?status=failed&ended=24h");
  await page.goBack();
  await cards.filter({ hasText: "Oldest queued" }).click();
  await page.waitForURL("**/runs?status=ready&sort=oldest");
  await page.getByRole("button", { name: "Oldest first" }).waitFor();
});

it("searches in what a run was called with, and shows no more of it than a browser bears", async () => {
  const input = { item: "x".repeat(200), cents: 1, lines: Array.from({ length: 40 }, (_, place) => ({ place, name: `part ${place}` })) };
  const small = await lab.api<{ id: string }>("/runs", { definition: "order", input, delay_ms: 3_600_000 });
  const page = await lab.page(`/runs/${small.id}`);
  await page.getByLabel("Search in input").fill("part 37");
  await page.getByText("lines[37].name").waitFor();
  const huge = await lab.api<{ id: string }>("/runs", { definition: "remind", input: "y".repeat(300_000), delay_ms: 3_600_000 });
  await page.goto(`${lab.url}/runs/${huge.id}`);
  await page.getByText(/The first 64 KiB of 293 KiB are shown/).waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "download 293 KiB" }).click()]);
  expect(file.suggestedFilename()).toBe(`${huge.id}-input.json`);
});

it("follows the system's theme, and keeps the one that somebody chose", async () => {
  const light = (page: Page) => page.evaluate(() => {
    const [red, green, blue] = getComputedStyle(document.documentElement).backgroundColor.match(/[\d.]+/g)!.map(Number);
    return (0.2126 * red! + 0.7152 * green! + 0.0722 * blue!) / 255;
  });
  const page = await lab.page("/runs", "dark");
  await page.getByRole("button", { name: "Theme: system" }).waitFor();
  await expect.poll(() => light(page)).toBeLessThan(0.1);
  await page.emulateMedia({ colorScheme: "light" });
  await expect.poll(() => light(page)).toBeGreaterThan(0.9);
  await page.keyboard.press("t");
  await page.keyboard.press("t");
  await page.getByRole("button", { name: "Theme: dark" }).waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Theme: dark" }).waitFor();
  await expect.poll(() => light(page)).toBeLessThan(0.1);
});

it("warns on the first page of what is held back", async () => {
  await lab.api("/queues/stock/pause", {});
  await lab.api("/runs", { definition: "check_stock", input: 1, queue: "stock" });
  const page = await lab.page("/");
  await page.getByRole("status", { name: "Warnings" }).getByText(/Queue stock is paused, and \d+ runs? (is|are) due in it/).waitFor();
  await page.getByRole("status", { name: "Warnings" }).getByRole("link", { name: "stock" }).click();
  await page.waitForURL("**/queues/stock");
  await page.getByRole("button", { name: "resume stock" }).click();
  await page.getByRole("button", { name: "Resume", exact: true }).last().click();
  // Who leaves before it is answered may never have asked.
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.goto(`${lab.url}/`);
  await page.getByText("Failed in 1h").waitFor();
  await page.getByText(/Queue stock is paused/).waitFor({ state: "detached" });
});

it("starts a run, and sends it again with another input", async () => {
  const page = await lab.page("/definitions/remind");
  await page.getByRole("button", { name: "Start…" }).click();
  await lab.writeInput(page, '"bo@example.com"');
  await page.getByRole("textbox", { name: "Key" }).fill("bo");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL("**/runs/run_*");
  await page.locator("h1", { hasText: "remind bo" }).waitFor();
  // Whoever does not know whether they have starts nothing twice.
  await page.goBack();
  await page.getByRole("button", { name: "Start…" }).click();
  expect(await page.getByRole("textbox", { name: "Key" }).inputValue()).toBe("bo");
  await lab.writeInput(page, '"bo@example.com"');
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("alert").getByText("Nothing was started").waitFor();
  await page.getByRole("dialog").getByRole("link").click();
  await page.locator("h1", { hasText: "remind bo" }).waitFor();
  const id = new URL(page.url()).pathname.split("/").at(-1)!;
  await lab.api(`/runs/${id}/kill`, { reason: "a test" });
  await page.getByRole("button", { name: "Rerun…" }).click();
  await lab.writeInput(page, '"cy@example.com"');
  await page.getByRole("button", { name: "Rerun", exact: true }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/runs/run_") && !url.pathname.endsWith(id));
  await page.getByText("cy@example.com").first().waitFor();
});
