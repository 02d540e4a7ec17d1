// A long list of runs has no more rows in the document than are seen.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

const ALL = 130;
let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
  for (let nth = 0; nth < ALL; nth++) await lab.api("/runs", { definition: "check_stock", input: nth, key: `row-${nth}`, delay_ms: 3_600_000, tags: { test: "rows" } });
});
afterAll(() => lab.close());

it("keeps few rows in the document, however far somebody scrolls", async () => {
  const page = await lab.page("/runs?tag=test%3Drows");
  const rows = page.getByRole("list", { name: "Runs" }).getByRole("listitem");
  await page.getByText(`row-${ALL - 1}`, { exact: true }).waitFor();
  expect(await rows.count()).toBeLessThan(60);
  // The second page comes when somebody has come to the end of the first.
  await expect.poll(async () => {
    await page.locator("#main").evaluate((main) => main.scrollTo({ top: main.scrollHeight }));
    return await page.getByText("row-0", { exact: true }).count();
  }).toBe(1);
  expect(await rows.count()).toBeLessThan(60);
  expect(await page.getByText(`row-${ALL - 1}`, { exact: true }).count()).toBe(0);
});
