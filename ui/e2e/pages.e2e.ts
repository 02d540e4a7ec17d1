// Every page on the samples, in both themes: it renders, axe finds nothing serious, and the browser has nothing to complain about.
import { afterAll, beforeAll, expect, it } from "vitest";
import { findings, Lab, type Theme } from "./lab";
import { pages, settled } from "./tour";

/// axe looks at everything there is on two dozen pages.
const LONG = 480_000;
let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

for (const theme of ["light", "dark"] as Theme[]) {
  it(`renders every page in ${theme} without complaint under a strict policy, and axe finds nothing serious`, async () => {
    const context = await lab.somebody(theme);
    // What a policy forbids is told by an event too, whatever the console says.
    await context.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => console.error("violation", event.violatedDirective, event.blockedURI)));
    const page = await lab.page("/", theme, context);
    for (const [path, title] of await pages(lab)) {
      await page.goto(lab.url + path);
      await settled(page, title);
      expect(await findings(page, theme), `${path} ${theme}`).toEqual([]);
    }
    await context.close();
    expect(lab.complaints).toEqual([]);
  }, LONG);
}

/// What opens above other pages than that of a run: where, by which button, and what it is.
const DIALOGS = [
  ["/definitions/order", "Start…", "a start, by a form"], ["/definitions/remind", "Start…", "a start, by JSON"],
  ["/queues/stock", "Limits…", "limits"], ["/queues/stock", "Purge…", "a purge"],
  ["/schedules/stock-check", "Backfill…", "a backfill"], ["/schedules/stock-check", "Edit…", "a schedule"],
] as const;

it("has nothing serious for axe in what opens above a page either", async () => {
  const id = await lab.order("above");
  const page = await lab.page(`/runs/${id}`);
  const look = async (what: string) => {
    await page.getByRole("dialog").waitFor();
    await page.getByRole("dialog").getByText("Loading…").waitFor({ state: "detached" });
    expect(await findings(page, "light"), what).toEqual([]);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  };
  await page.getByRole("group", { name: "Steps" }).getByText("charge", { exact: true }).click();
  await page.getByRole("button", { name: "Fork from here…" }).click();
  await look("a fork");
  await page.keyboard.press("c");
  await look("a cancel");
  await page.keyboard.press("?");
  await look("keys");
  await page.keyboard.press("Control+k");
  await look("the palette");
  await page.goto(`${lab.url}/runs?def=order`);
  await page.getByRole("button", { name: "Act on all…" }).click();
  await look("a bulk");
  for (const [path, button, what] of DIALOGS) {
    await page.goto(lab.url + path);
    await page.getByRole("button", { name: button, exact: true }).first().click();
    await look(what);
  }
  await page.goto(`${lab.url}/runs/${id}`);
  await page.getByRole("button", { name: "Send event…" }).first().click();
  await look("an event");
}, LONG);

it("has a place for everything on a narrow screen", async () => {
  const context = await lab.somebody();
  const page = await lab.page("/", "light", context);
  await page.setViewportSize({ width: 390, height: 800 });
  for (const [path, title] of await pages(lab)) {
    await page.goto(lab.url + path);
    await settled(page, title);
    // Tables scroll by themselves; nothing else is wider than the screen.
    const beyond = await page.evaluate(() => {
      const main = document.getElementById("main")!;
      return Math.max(document.documentElement.scrollWidth - window.innerWidth, main.scrollWidth - main.clientWidth);
    });
    expect.soft(beyond, path).toBeLessThanOrEqual(0);
  }
  await context.close();
}, LONG);
