// What whoever opens the dashboard waits for: the rows of the list or the numbers of the first page, and nothing that stands beside them.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
  for (const item of ["map", "compass"]) await lab.order(item);
});
afterAll(() => lab.close());

it.each([["/runs", "[role=listitem]", "/api/v1/runs?since=24h&limit=100"], ["/", "[data-card]", "/api/v1/stats/summary?range=1h"]])("%s stands by what its document has the browser ask for, and asks for it once", async (path, wanted, first) => {
  const context = await lab.somebody();
  const asked: string[] = [];
  await context.route("**/*", async (route) => {
    const url = new URL(route.request().url());
    const isFirst = url.pathname + url.search === first || url.pathname === "/api/v1/me";
    if (url.pathname.startsWith("/api/") || url.pathname === "/version" || url.pathname === "/readyz") asked.push(url.pathname + url.search);
    // Whatever else is asked for never comes.
    if (isFirst || url.pathname === path || url.pathname.startsWith("/assets/")) await route.continue();
  });
  const page = await context.newPage();
  // What is two seconds old is asked for once more when it is drawn, and a busy machine may take as long.
  await page.clock.setFixedTime(Date.now());
  await page.goto(lab.url + path, { waitUntil: "commit" });
  await page.locator(wanted).first().waitFor();
  expect(asked.filter((one) => one === first)).toHaveLength(1);
  expect(asked.filter((one) => one === "/api/v1/me")).toHaveLength(1);
  await context.close();
});

it("lays out the list once before its rows are on the screen", async () => {
  // The list is there before anything is drawn, as it is on a machine that does nothing else.
  const context = await lab.unhurried();
  await context.addInitScript(() => {
    const seen: string[] = [];
    Object.assign(window, { seen });
    let isPainted = false;
    // Whoever asks where something is has everything laid out at once, before the rest of it is there.
    for (const name of ["offsetTop", "offsetHeight", "offsetWidth"]) {
      const own = Object.getOwnPropertyDescriptor(HTMLElement.prototype, name)!;
      Object.defineProperty(HTMLElement.prototype, name, { ...own, get() { if (!isPainted) seen.push(name); return own.get!.call(this) as number; } });
    }
    const scroll = Element.prototype.scrollTo;
    Element.prototype.scrollTo = function (this: Element, ...to: unknown[]) { if (!isPainted) seen.push("scrollTo"); scroll.apply(this, to as never); };
    new MutationObserver((_, observer) => {
      if (!document.querySelector("[role=listitem]")) return;
      observer.disconnect();
      requestAnimationFrame(() => (isPainted = true));
    }).observe(document, { childList: true, subtree: true });
  });
  const page = await lab.page("/runs", "light", context);
  await page.locator("[role=listitem]").first().waitFor();
  expect(await page.evaluate(() => (window as unknown as { seen: string[] }).seen)).toEqual([]);
  // What scrolls does all the same.
  await expect.poll(() => page.locator("[role=listitem]").count()).toBeGreaterThan(1);
  await context.close();
});
