// What the first page counts, and where the pages stand on a screen of middling width.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("leads from each number to the runs that it counts", async () => {
  const page = await lab.page("/");
  const cards = page.locator("[data-card]");
  for (const [name, search] of [["Running", "status=running&status=undoing"], ["Queued", "status=ready"], ["Waiting", "status=waiting"], ["Failed in 1h", "status=failed&ended=1h"], ["Oldest queued", "status=ready&sort=oldest"]] as const) {
    await cards.filter({ hasText: name }).first().click();
    await page.waitForURL(`**/runs?${search}`);
    await page.locator("h1", { hasText: "Runs" }).waitFor();
    await page.getByLabel(`Remove status:${/status=(\w+)/.exec(search)![1]}`).waitFor();
    await page.goBack();
    await cards.first().waitFor();
  }
});

it("has icons for the pages where there is no room for their names, and names for whoever listens", async () => {
  const page = await lab.page("/");
  const nav = page.getByRole("navigation", { name: "Pages" });
  const name = nav.locator("a[href='/queues'] span");
  const width = async () => Math.round((await nav.boundingBox())!.width);
  await name.waitFor();
  for (const wide of [1099, 700]) {
    await page.setViewportSize({ width: wide, height: 800 });
    await expect.poll(() => name.isVisible()).toBe(false);
    expect(await width()).toBe(52);
    expect(await nav.locator("a[href='/queues'] svg").isVisible()).toBe(true);
    // Beside the page, and not below it.
    expect((await page.getByRole("main").boundingBox())!.x).toBe(52);
  }
  await nav.getByRole("link", { name: "Queues", exact: true }).click();
  await page.waitForURL("**/queues");
  await page.setViewportSize({ width: 1100, height: 800 });
  await name.waitFor();
  await page.setViewportSize({ width: 699, height: 800 });
  await expect.poll(async () => (await nav.boundingBox())!.y).toBeGreaterThan(700);
});
