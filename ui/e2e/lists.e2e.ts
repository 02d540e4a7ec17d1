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

/// Sets a part of a schedule.
const put = async (path: string, body: unknown) => {
  const answer = await fetch(`${lab.url}/api/v1${path}`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  expect(answer.status).toBe(200);
};

it("has a schedule fire at other times, unless somebody else changed it meanwhile", async () => {
  const kept = { tags: { team: "stock" }, group: "night", priority: 3, jitter_ms: 1000 };
  await put("/schedules/stock-check", kept);
  const page = await lab.page("/schedules/stock-check");
  const edit = async (when: string) => {
    await page.getByRole("button", { name: "Edit…" }).click();
    await page.getByRole("textbox", { name: /^When/ }).fill(when);
  };
  await edit("every 20m");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByText("every 20m").first().waitFor();
  // What the dialog does not show is as it was.
  expect(await lab.api("/schedules/stock-check")).toMatchObject({ expression: "every 20m", ...kept });
  await page.getByText("team=stock").waitFor();

  await edit("every 30m");
  lab.cli("schedule", "pause", "stock-check");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").waitFor();
  expect((await lab.api<{ expression: string }>("/schedules/stock-check")).expression).toBe("every 20m");
  await page.context().close();
});

it("has a schedule fire at other times for somebody who may not see its input", async () => {
  await put("/schedules/secret", { definition: "order", expression: "@daily", input: { item: "secret", cents: 1 } });
  const context = await lab.somebody();
  await context.route("**/api/v1/schedules/secret", async (route) => {
    if (route.request().method() !== "GET") return route.continue();
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), input: { item: "[redacted]", cents: 1 } } });
  });
  const page = await lab.page("/schedules/secret", "light", context);
  await page.getByRole("button", { name: "Edit…" }).click();
  const [save, input] = [page.getByRole("button", { name: "Save" }), page.getByRole("textbox", { name: /^Input/ })];
  await input.fill('{"item":"[redacted]","cents":2}');
  await page.getByText("hidden from you").waitFor();
  expect(await save.isDisabled()).toBe(true);
  await page.getByRole("button", { name: "Not now" }).click();
  await page.getByRole("button", { name: "Edit…" }).click();
  await page.getByRole("textbox", { name: /^When/ }).fill("@hourly");
  await save.click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  expect(await lab.api("/schedules/secret")).toMatchObject({ expression: "@hourly", input: { item: "secret", cents: 1 } });
  await context.close();
});

it("shows what a queue had in which nothing is any more", async () => {
  const { id } = await lab.api<{ id: string }>("/runs", { definition: "remind", input: "gone", queue: "gone" });
  const page = await lab.page(`/queues/gone`);
  await page.getByText("Unfinished runs").waitFor();
  await lab.api(`/runs/${id}/cancel`, { reason: "a test" });
  await page.goto(`${lab.url}/runs/${id}`);
  await page.getByRole("link", { name: "gone", exact: true }).click();
  await page.getByText("Nothing is in it now").waitFor();
  await page.getByRole("heading", { name: "Last failures" }).waitFor();
  await page.locator(`main a[href="/runs/${id}"]`).waitFor();
  await page.getByText("Ended runs").first().waitFor();
  await page.context().close();
});

it("shows the runs that failed alike also where no sum knows of them", async () => {
  const id = await lab.run({ definition: "pay_invoice", input: "unknown" }, "failed");
  const { failure } = await lab.api<{ failure: string }>(`/runs/${id}`);
  const context = await lab.somebody();
  await context.route("**/api/v1/errors?*fingerprint=*", (route) => route.fulfill({ json: { items: [] } }));
  const page = await lab.page(`/errors/${failure}`, "light", context);
  await page.getByText("Nothing that failed like this was summed up").waitFor();
  await page.locator(`main a[href="/runs/${id}"]`).waitFor();
  await context.close();
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
