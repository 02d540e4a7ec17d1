// Keys of the list and of a run, and of live updates.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("walks the list of runs with j and k, selects one with x, and opens it with Enter", async () => {
  const ids: string[] = [];
  for (let nth = 0; nth < 3; nth++) ids.unshift((await lab.api<{ id: string }>("/runs", { definition: "remind", input: `key ${nth}`, delay_ms: 3_600_000, tags: { test: "keys" } })).id);
  const page = await lab.page("/runs?tag=test%3Dkeys");
  await page.locator(`a[href="/runs/${ids[2]}"]`).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("href"));
  for (const [key, at] of [["j", 0], ["j", 1], ["j", 2], ["k", 1]] as const) {
    await page.keyboard.press(key);
    await expect.poll(focused).toBe(`/runs/${ids[at]}`);
  }
  const box = page.getByRole("listitem").filter({ has: page.locator(`a[href="/runs/${ids[1]}"]`) }).getByRole("checkbox");
  await page.keyboard.press("x");
  await expect.poll(() => box.isChecked()).toBe(true);
  expect(await page.getByRole("listitem").getByRole("checkbox", { checked: true }).count()).toBe(1);
  await page.keyboard.press("x");
  await expect.poll(() => box.isChecked()).toBe(false);
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/runs/${ids[1]}`);
});

it("asks with r whether a run is to be tried again, and does nothing before that", async () => {
  const id = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Retry…" }).waitFor();
  await page.keyboard.press("r");
  await page.getByRole("dialog", { name: "Retry from where it went wrong?" }).waitFor();
  // Nor is a key for the page while a dialog is open.
  await page.keyboard.press(".");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  expect(await lab.api(`/runs/${id}`)).toMatchObject({ status: "failed" });
});

it("pauses live updates with a dot, and lets them go on with another", async () => {
  const page = await lab.page("/queues");
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  await page.keyboard.press(".");
  await page.getByRole("button", { name: "Live updates: paused" }).waitFor();
  await page.keyboard.press(".");
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
});
