// What a run logged: by step, by the address, as a file, and asked for once.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("says of each line which step logged it, leads there, and shows those of one step by the address", async () => {
  const id = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const page = await lab.page(`/runs/${id}?tab=logs`);
  const log = page.getByRole("log", { name: "Log" });
  await page.getByText("4 lines", { exact: true }).waitFor();
  expect(await log.getByRole("link").allInnerTexts()).toEqual(["hotel", "flight", "undo:flight", "undo:hotel"]);
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download the lines shown" }).click()]);
  const lines = readFileSync(await file.path(), "utf8").trim().split("\n");
  expect(lines.map((line) => /^\S+ info \[([^\]]+)\] /.exec(line)?.[1])).toEqual(["hotel", "flight", "undo:flight", "undo:hotel"]);

  await page.getByLabel("Of which step").selectOption("undo:hotel");
  await page.waitForURL(/logstep=undo(:|%3A)hotel/);
  await page.getByText("1 line", { exact: true }).waitFor();
  const other = await lab.page(new URL(page.url()).pathname + new URL(page.url()).search);
  await other.getByText("1 line", { exact: true }).waitFor();
  await other.getByRole("log", { name: "Log" }).getByRole("link", { name: "undo:hotel" }).click();
  await other.getByRole("complementary", { name: "Step undo hotel" }).waitFor();
  await page.getByLabel("Of which step").selectOption("all");
  await page.getByText("4 lines", { exact: true }).waitFor();
});

it("asks for a line that it has no second time", async () => {
  const id = await lab.order("once");
  const context = await lab.somebody();
  const asked: number[] = [];
  await context.route("**/logs?*", (route) => {
    asked.push(Number(new URL(route.request().url()).searchParams.get("after")));
    return route.continue();
  });
  const page = await lab.page(`/runs/${id}?tab=logs`, "light", context);
  await page.getByText("2 lines", { exact: true }).waitFor();
  await lab.api(`/runs/${id}/events`, { name: "approval", data: { by: "ann", ok: true } });
  await page.getByRole("log", { name: "Log" }).getByText("ann approved it").waitFor();
  expect(asked.indexOf(0)).toBe(0);
  expect(asked.lastIndexOf(0)).toBe(0);
  expect(asked.length).toBeGreaterThan(1);
});
