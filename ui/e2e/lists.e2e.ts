// What lists and the palette do beside showing things.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("does from the palette what can be done to the run on the page, and finds runs by the end of their ids", async () => {
  const id = await lab.order("palette");
  const page = await lab.page("/runs");
  await page.getByRole("listitem").filter({ hasText: "order" }).first().waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Jump to" }).fill(id.slice(-8));
  await page.getByRole("option", { name: id }).click();
  await page.waitForURL(`**/runs/${id}`);
  await page.getByRole("button", { name: "Send event…" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Jump to" }).fill("cancel");
  await page.getByRole("option", { name: "Cancel this run" }).click();
  await page.getByRole("dialog", { name: /^Cancel order/ }).waitFor();
  await page.context().close();
});

it("has a schedule fire at other times, unless somebody else changed it meanwhile", async () => {
  const page = await lab.page("/schedules/stock-check");
  const edit = async (when: string) => {
    await page.getByRole("button", { name: "Edit…" }).click();
    await page.getByRole("textbox", { name: /^When/ }).fill(when);
  };
  await edit("every 20m");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByText("every 20m").first().waitFor();
  expect((await lab.api<{ expression: string }>("/schedules/stock-check")).expression).toBe("every 20m");

  await edit("every 30m");
  lab.cli("schedule", "pause", "stock-check");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").waitFor();
  expect((await lab.api<{ expression: string }>("/schedules/stock-check")).expression).toBe("every 20m");
  await page.context().close();
});

it("holds rows still while a menu is open", async () => {
  const page = await lab.page("/runs?def=remind");
  await lab.api("/runs", { definition: "remind", input: "first", key: "held-1", delay_ms: 3_600_000 });
  await page.getByText("held-1").waitFor();
  await page.getByLabel("Columns").click();
  await lab.api("/runs", { definition: "remind", input: "second", key: "held-2", delay_ms: 3_600_000 });
  await page.getByRole("button", { name: "↑ 1 new run" }).waitFor();
  expect(await page.getByText("held-2").count()).toBe(0);
  await page.keyboard.press("Escape");
  await page.getByText("held-2").waitFor();
  await page.context().close();
});

it("counts warnings at the head of the first page, and leads to them", async () => {
  await lab.api("/runs", { definition: "remind", input: "held back", queue: "held", delay_ms: 3_600_000 });
  await lab.api("/queues/held/pause", { reason: "a test" });
  await lab.api("/runs", { definition: "remind", input: "held back", queue: "held" });
  const page = await lab.page("/");
  await page.getByRole("button", { name: /^\d+ warnings?$/ }).click();
  await page.getByRole("status", { name: "Warnings" }).getByText("is paused, and 1 run is due in it").waitFor();
  await page.context().close();
});
