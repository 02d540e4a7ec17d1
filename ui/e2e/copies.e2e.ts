// What can be taken along from a run, and what is left away of what it said.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
let id: string;
beforeAll(async () => {
  lab = await Lab.open();
  id = await lab.order("copied");
});
afterAll(() => lab.close());

it("copies a fork from a step as a command, and as a request that only says what would be", async () => {
  const context = await lab.unhurried();
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await lab.page(`/runs/${id}?step=step:charge`, "light", context);
  const copied = async (label: string) => {
    await page.getByRole("button", { name: label }).click();
    await page.getByText("copied", { exact: true }).first().waitFor();
    return await page.evaluate(() => navigator.clipboard.readText());
  };
  expect(await copied("copy as CLI")).toBe(`outlast fork ${id} --from 'charge'`);
  await page.reload();
  expect(await copied("copy as curl")).toBe(`curl -X POST '${lab.url}/api/v1/runs/${id}/fork' -H 'content-type: application/json' -H "authorization: Bearer $OUTLAST_TOKEN" -d '{"from":"charge","dry_run":true}'`);
});

it("shows lines of a log without what colours them on a terminal", async () => {
  const context = await lab.somebody();
  const line = { at: new Date().toISOString(), level: "info", message: "\u001b[1;32mall\u001b[0m \u001b]8;;https://example.com\u0007well\u001b]8;;\u0007", step: null };
  await context.route(`**/api/v1/runs/${id}/logs?*`, (route) => route.fulfill({ json: { items: route.request().url().includes("after=0") ? [line] : [], next_after: 1, has_more: false } }));
  const page = await lab.page(`/runs/${id}?tab=logs`, "light", context);
  await page.getByText("1 line", { exact: true }).waitFor();
  const shown = await page.getByRole("log", { name: "Log" }).innerText();
  expect(shown).toContain("all well");
  expect([...shown].filter((one) => one.charCodeAt(0) < 32 && !"\n\t".includes(one))).toEqual([]);
});
