// What other dashboards got wrong, each as a test. The numbers are those of the table in docs/dashboard.md.
import type { BrowserContext, Page, Request } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

const live = (page: Page) => page.getByRole("button", { name: "Live updates: live" }).waitFor();

it("trap 1: shows numbers as they were written", async () => {
  const { id } = await lab.api<{ id: string }>("/runs", '{"definition":"heartbeat","input":9007199254740993,"delay_ms":3600000}');
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("region", { name: "input" }).getByText("9007199254740993", { exact: true }).waitFor();
  // What is started again from here has it too.
  await page.goto(`${lab.url}/definitions/heartbeat`);
  await page.getByRole("button", { name: "Start…" }).click();
  await expect.poll(() => page.getByRole("textbox", { name: "Input" }).inputValue()).toBe("9007199254740993");
  await lab.api(`/runs/${id}/cancel`, {});
});

it.each([-3_600_000, 3_600_000])("trap 2: no duration is negative on a machine whose clock is off by %i ms", async (off) => {
  const context = await lab.somebody();
  await context.addInitScript((off) => {
    const now = Date.now.bind(Date);
    Date.now = () => now() + off;
  }, off);
  const id = await lab.order("clock");
  const page = await lab.page("/runs", "light", context);
  const row = page.getByRole("listitem").filter({ has: page.locator(`a[href="/runs/${id}"]`) });
  await row.waitFor();
  await expect.poll(() => row.innerText()).toMatch(/\b(now|\d+ s ago)/);
  expect(await page.getByRole("list", { name: "Runs" }).innerText()).not.toMatch(/-\d+ (ms|s|min|h)|in \d+ min/);
  await page.goto(`${lab.url}/runs/${id}`);
  await page.getByText("waiting for event approval").waitFor();
  expect(await page.locator("main").innerText()).not.toMatch(/-\d+ (ms|s|min|h)\b/);
  await page.goto(`${lab.url}/`);
  await page.getByRole("status", { name: "Warnings" }).getByText(/clock is 3(59|60)\d s/).waitFor();
});

it("trap 3: nothing in the document needs a weaker policy, and the policy holds", async () => {
  const page = await lab.page("/runs");
  await live(page);
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    return "ran" in window;
  });
  expect(ran, "code in the document is refused").toBe(false);
  const sent = await (await fetch(`${lab.url}/runs`)).text();
  expect([...sent.matchAll(/<script(?![^>]*(?:src=|application\/json))/g)]).toEqual([]);
  lab.complaints.length = 0;
});

it("trap 4: copies where browsers offer no clipboard", async () => {
  const context = await lab.unhurried();
  await context.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
  const id = await lab.order("copy");
  const page = await lab.page(`/runs/${id}`, "light", context);
  const copy = page.getByRole("button", { name: "Copy id" });
  await copy.click();
  await expect.poll(() => copy.innerText()).toBe("copied");
  await page.goto(`${lab.url}/runs`);
  await page.getByLabel("Filter runs").focus();
  await page.keyboard.press("Control+v");
  await expect.poll(() => page.getByLabel("Filter runs").inputValue()).toBe(id);
});

it("trap 5: names may have slashes, dots, spaces and percent signs", async () => {
  const name = "a/b.c 100%/ü";
  const answer = await lab.ask("/runs", { definition: "heartbeat", input: 0, queue: name, delay_ms: 3_600_000 });
  // What the server takes has a page; what it refuses is refused for every client.
  const queue = answer.ok ? name : "a/b.c";
  const { id } = answer.ok ? ((await answer.json()) as { id: string }) : await lab.api<{ id: string }>("/runs", { definition: "heartbeat", input: 0, queue, delay_ms: 3_600_000 });
  const page = await lab.page("/queues");
  await page.getByRole("link", { name: queue, exact: true }).click();
  await page.locator("h1", { hasText: queue }).waitFor();
  expect(new URL(page.url()).pathname.split("/")).toHaveLength(3);
  await page.reload();
  await page.locator("h1", { hasText: queue }).waitFor();
  await page.locator(`a[href="/runs/${id}"]`).waitFor();
});

it("trap 7: a cron expression with absurd ranges is refused at once", async () => {
  for (const expression of ["0-999999999 * * * *", "*/0 * * * *", "1-59/99999999999999999999 * * * *", "0 0 31-1 2 *", `${"1,".repeat(50_000)}1 * * * *`]) {
    const began = performance.now();
    const answer = await fetch(`${lab.url}/api/v1/cron?expression=${encodeURIComponent(expression)}`);
    // What expands to a billion minutes takes far longer, or takes the server with it.
    expect(performance.now() - began, expression.slice(0, 40)).toBeLessThan(20_000);
    expect(answer.status, expression.slice(0, 40)).toBeGreaterThanOrEqual(400);
    expect(answer.status, expression.slice(0, 40)).toBeLessThan(500);
  }
});

it("trap 8: whoever leaves while a slow answer is on its way stays away", async () => {
  const context = await lab.somebody();
  let release: () => void = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await context.route("**/api/v1/runs?*", async (route) => {
    await held;
    await route.continue().catch(() => {});
  });
  const page = await lab.page("/runs?status=failed&def=pay_invoice", "light", context);
  await page.getByLabel("Remove def:pay_invoice").waitFor();
  await page.getByRole("link", { name: "Queues", exact: true }).first().click();
  await page.waitForURL("**/queues");
  release();
  await page.getByRole("link", { name: "stock", exact: true }).click();
  await page.locator("h1", { hasText: "stock" }).waitFor();
  await page.goBack();
  await page.waitForURL("**/queues");
  await page.getByRole("link", { name: "stock", exact: true }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/queues");
  await page.goBack();
  await page.waitForURL("**/runs?status=failed&def=pay_invoice");
});

it("trap 9: rows hold still while some are selected, and new ones are counted", async () => {
  const ids = [await lab.order("one"), await lab.order("two"), await lab.order("three")];
  const page = await lab.page("/runs?def=order&status=waiting");
  await live(page);
  await page.locator(`a[href="/runs/${ids[2]}"]`).waitFor();
  const rows = () => page.getByRole("listitem").locator("a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  await page.getByRole("listitem").filter({ has: page.locator(`a[href="/runs/${ids[1]}"]`) }).getByRole("checkbox").click();
  const before = await rows();
  // Some come, and some fit no longer: those above what was chosen, and what was chosen itself.
  await lab.api(`/runs/${ids[2]}/kill`, { reason: "a test" });
  await lab.api(`/runs/${ids[1]}/kill`, { reason: "a test" });
  const more = await lab.order("four");
  await page.getByRole("button", { name: /↑ \d+ new run/ }).waitFor();
  expect((await rows()).slice(0, before.length)).toEqual(before);
  await page.getByText("1 selected").waitFor();
  await page.getByRole("button", { name: /↑ \d+ new run/ }).click();
  await page.locator(`a[href="/runs/${more}"]`).waitFor();
  await page.locator(`a[href="/runs/${ids[2]}"]`).waitFor({ state: "detached" });
});

it("trap 10: numbers stay while newer ones are on their way", async () => {
  await lab.failures();
  const context = await lab.somebody();
  await context.addInitScript(() => {
    const seen: string[] = ((window as unknown as { seen: string[] }).seen = []);
    new MutationObserver(() => {
      for (const card of document.querySelectorAll("main a strong, nav li > b")) seen.push(`${card.parentElement!.textContent!.slice(0, 12)}=${card.textContent}`);
      if (seen.some((one) => one.startsWith("Running")) && !document.querySelector("main a strong")) seen.push("gone");
    }).observe(document, { childList: true, subtree: true, characterData: true });
  });
  const page = await lab.page("/", "light", context);
  await page.locator("nav li > b").waitFor();
  await page.getByText(/Failed in/).waitFor();
  // A slow network, and answers asked for again and again.
  await context.route("**/api/v1/{stats,errors,queues}**", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    await route.continue().catch(() => {});
  });
  for (const range of ["6h", "24h", "1h"]) {
    await page.getByRole("button", { name: range, exact: true }).click();
    await page.getByText(`Failed in ${range}`).waitFor();
  }
  const seen = await page.evaluate(() => (window as unknown as { seen: string[] }).seen);
  expect(seen.filter((one) => one === "gone" || one.endsWith("=") || one.startsWith("Failed in") && one.endsWith("=0"))).toEqual([]);
  expect(await page.locator("nav li > b").innerText()).toMatch(/^[1-9]/);
});

it("trap 11: nothing is deleted without being asked, and what is lost is said", async () => {
  const id = await lab.order("gone");
  await lab.api(`/runs/${id}/kill`, { reason: "a test" });
  const page = await lab.page(`/runs/${id}`);
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByText("gone for good").waitFor();
  expect((await lab.ask(`/runs/${id}`)).status).toBe(200);
  await page.getByRole("button", { name: "Not now" }).click();
  expect((await lab.ask(`/runs/${id}`)).status).toBe(200);
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByLabel(/Reason/).fill("a test wants it");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL("**/runs");
  expect((await lab.ask(`/runs/${id}`)).status).toBe(404);
});

it("trap 11: whoever deletes many is told how many, and what is lost", async () => {
  const ids = [await lab.order("gone one"), await lab.order("gone two")];
  for (const id of ids) await lab.api(`/runs/${id}/kill`, { reason: "a test" });
  const page = await lab.page("/runs?status=cancelled&def=order");
  for (const id of ids) await page.getByRole("listitem").filter({ has: page.locator(`a[href="/runs/${id}"]`) }).getByRole("checkbox").click();
  await page.getByRole("button", { name: "Act on them…" }).click();
  await page.getByLabel("What").selectOption("delete");
  await page.getByText("gone for good").waitFor();
  await page.getByRole("button", { name: "Delete 2 runs" }).click();
  expect((await lab.ask(`/runs/${ids[0]}`)).status, "a reason is missing").toBe(200);
  await page.getByLabel(/Reason/).fill("a test wants it");
  await page.getByRole("button", { name: "Delete 2 runs" }).click();
  await page.waitForURL("**/bulk/run_*");
  await page.locator("[data-state=completed]").waitFor();
  for (const id of ids) expect((await lab.ask(`/runs/${id}`)).status).toBe(404);
});

it("trap 13: a tab that is opened behind another has no stream before somebody sees it", async () => {
  const context = await lab.somebody();
  await context.addInitScript(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }));
  let asked = 0;
  context.on("request", (request) => (asked += request.url().includes("/api/v1/live") ? 1 : 0));
  const page = await context.newPage();
  await page.goto(`${lab.url}/queues`);
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  await page.getByRole("link", { name: "default" }).first().waitFor();
  expect(asked).toBe(0);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await expect.poll(() => asked).toBe(1);
  await context.close();
});

it("trap 13: seven tabs work at once, because a hidden one lets its stream go", async () => {
  const context: BrowserContext = await lab.somebody();
  const hide = () => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  let open = 0;
  context.on("request", (request) => (open += request.url().includes("/api/v1/live") ? 1 : 0));
  const ended = (request: Request) => (open -= request.url().includes("/api/v1/live") ? 1 : 0);
  context.on("requestfailed", ended);
  context.on("requestfinished", ended);
  const pages: Page[] = [];
  for (let tab = 0; tab < 7; tab++) {
    const page = await context.newPage();
    await page.clock.install();
    await page.goto(`${lab.url}/runs`);
    await live(page);
    await expect.poll(() => open, { message: "one stream for each tab that is seen" }).toBe(1);
    await page.evaluate(hide);
    await page.clock.runFor(31_000);
    await expect.poll(() => open).toBe(0);
    pages.push(page);
  }
  await pages[0]!.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await pages[0]!.clock.runFor(1000);
  await expect.poll(() => open).toBe(1);
  await context.close();
});
