// How single screens behave: the timeline, the keyboard.
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
  const box = (await axis.boundingBox())!;
  await page.mouse.move(box.x + 50, box.y + 24);
  await page.mouse.down();
  await page.mouse.move(box.x + 200, box.y + 24, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/zoom=\d+-\d+/);
  await page.getByRole("button", { name: "show all" }).click();
  await page.waitForURL((url) => !url.search.includes("zoom"));
});

it("goes anywhere by keyboard", async () => {
  const page = await lab.page("/runs");
  await page.locator("h1", { hasText: "Runs" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  await page.waitForURL("**/queues");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Jump to" }).fill("pay_inv");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/runs?def=pay_invoice");
  await page.keyboard.press("/");
  expect(await page.evaluate(() => document.activeElement?.id)).toBe("filter");
});
