// More of how single screens behave: what is kept in a browser, runs in files, failures that are alike, nodes that were lost.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("keeps settings in the browser, and forgets them when asked", async () => {
  const page = await lab.page("/settings");
  await page.getByRole("radio", { name: "dark" }).check();
  await page.getByRole("radio", { name: "in UTC" }).check();
  await page.getByLabel("Owner").check();
  await page.reload();
  expect(await page.getByRole("radio", { name: "dark" }).isChecked()).toBe(true);
  await page.getByRole("button", { name: "Theme: dark" }).waitFor();
  await page.goto(`${lab.url}/runs`);
  await page.locator("[data-col=owner]").first().waitFor();
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByRole("button", { name: "Forget everything…" }).click();
  await page.getByRole("button", { name: "Forget", exact: true }).click();
  await page.getByRole("button", { name: "Theme: system" }).waitFor();
  expect(await page.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith("outlast.")))).toEqual([]);
});

it("gives names or bars more room, by mouse and by keyboard, and remembers it", async () => {
  const id = await lab.order("room");
  const page = await lab.page(`/runs/${id}?step=charge`);
  await page.getByRole("separator", { name: "Room for the timeline" }).waitFor();
  for (const label of ["Room for names", "Room for the timeline"]) {
    const divider = page.getByRole("separator", { name: label });
    const { x } = (await divider.boundingBox())!;
    // What is said above it comes when it is known, and moves it down, perhaps from under the pointer: then it is taken once more.
    await expect.poll(async () => {
      await divider.hover({ position: { x: 2, y: 80 } });
      const { x: now, y } = (await divider.boundingBox())!;
      if (now < x - 40) return now;
      await page.mouse.down();
      await page.mouse.move(now + 2 - 60, y + 80, { steps: 4 });
      await page.mouse.up();
      return (await divider.boundingBox())!.x;
    }, { message: label }).toBeLessThan(x - 40);
    const moved = Number(await divider.getAttribute("aria-valuenow"));
    await divider.press("ArrowRight");
    await expect.poll(async () => Number(await divider.getAttribute("aria-valuenow")), { message: label }).toBeGreaterThan(moved);
    const kept = await divider.getAttribute("aria-valuenow");
    await page.reload();
    expect(await divider.getAttribute("aria-valuenow"), label).toBe(kept);
    await divider.dblclick();
  }
});

it("opens all children of a timeline with e, and closes them with w", async () => {
  const id = await lab.run({ definition: "stocktaking", input: 2 }, "completed");
  const page = await lab.page(`/runs/${id}`);
  await page.getByRole("button", { name: "Steps of the child" }).nth(1).waitFor();
  await page.locator("h1").click();
  await page.keyboard.press("e");
  await expect.poll(() => page.locator("[data-toggle][aria-expanded=true]").count()).toBe(2);
  await page.keyboard.press("w");
  await expect.poll(() => page.locator("[data-toggle][aria-expanded=true]").count()).toBe(0);
});

it("shows what people asked of a run in its history", async () => {
  const id = await lab.order("asked");
  await lab.api(`/runs/${id}/pause`, { reason: "look at it first" });
  const page = await lab.page(`/runs/${id}?tab=history`);
  const row = page.getByRole("row").filter({ hasText: "look at it first" });
  await row.waitFor();
  expect(await row.innerText()).toMatch(/operator\s+done\s+pause/);
  await page.getByLabel("Kind").selectOption("operator");
  await expect.poll(() => page.getByRole("row").filter({ hasText: "charge" }).count()).toBe(0);
  await row.waitFor();
});

it("looks on for what is of the kind that somebody wants, tells of all that people did, and has no more rows in the document than are seen", async () => {
  const id = await lab.order("long history");
  await lab.api(`/runs/${id}/pause`, { reason: "long after the first page" });
  const [all, rare] = [1900, 1700];
  const made = Date.parse("2026-01-01T00:00:00Z");
  const entry = (pos: number) => ({ pos, at: new Date(made + pos * 1000).toISOString(), op: pos === rare ? "event" : "step", phase: "done", name: `entry ${pos}`, body: null });
  const page = await lab.page("/runs");
  const asked: number[] = [];
  let isAway = false;
  await page.route(`**/api/v1/runs/${id}/history?*limit=500*`, (route) => {
    const after = Number(new URL(route.request().url()).searchParams.get("after") ?? 0);
    if (isAway && after) return route.fulfill({ status: 503, json: { code: "unavailable", detail: "not now" } });
    asked.push(after);
    const to = Math.min(all, after + 500);
    return route.fulfill({ json: { items: Array.from({ length: to - after }, (_, nth) => entry(after + nth + 1)), next_after: to < all ? to : null } });
  });
  // What people did stands behind the last entry that has come, and is there all the same.
  await page.goto(`${lab.url}/runs/${id}?tab=history&kind=operator`);
  await page.getByRole("row").filter({ hasText: "long after the first page" }).waitFor();
  expect(await page.getByRole("status").filter({ hasText: /Loading|looking on/ }).count()).toBe(0);
  expect([...new Set(asked)]).toEqual([0]);
  // Nobody has to press anything for what is pages away; and where it cannot be had that is said.
  isAway = true;
  await page.getByLabel("Kind").selectOption("");
  await page.getByLabel("Kind").selectOption("step");
  const entries = page.getByRole("group", { name: "Entries" });
  await entries.getByText("entry 1", { exact: true }).waitFor();
  await page.goto(`${lab.url}/runs/${id}?tab=history&kind=event`);
  await page.getByText("There is more, and it could not be had.").waitFor();
  isAway = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await entries.getByText(`entry ${rare}`, { exact: true }).waitFor();
  await page.getByText("1,900 entries", { exact: true }).waitFor();
  await expect.poll(() => page.getByRole("row").count()).toBe(2);
  // All of them: the last one is reached by scrolling, and those that were passed are not in the document any more.
  await page.getByLabel("Kind").selectOption("");
  await expect.poll(async () => {
    await entries.evaluate((box) => box.scrollTo({ top: box.scrollHeight }));
    return await entries.getByText(`entry ${all}`, { exact: true }).count();
  }).toBe(1);
  await entries.getByText("long after the first page").waitFor();
  expect(await page.getByRole("row").count()).toBeLessThan(80);
  expect(await entries.getByText("entry 1", { exact: true }).count()).toBe(0);
  // Whoever scrolls back finds the first ones where they were.
  await entries.evaluate((box) => box.scrollTo({ top: 0 }));
  await entries.getByText("entry 1", { exact: true }).waitFor();
});

it("opens a run from the file that it was downloaded as, and shows the same steps", async () => {
  const id = await lab.order("kept");
  const page = await lab.page(`/runs/${id}?tab=raw`);
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download with its journal" }).click()]);
  const path = await file.path();
  expect(lab.cli("show", "--file", path)).toContain("charge");
  await page.goto(`${lab.url}/runs/import`);
  await page.locator("input[type=file]").setInputFiles(path);
  await page.locator("h1", { hasText: /^order, from a file$/ }).waitFor();
  await page.getByText("What became of it since").waitFor();
  await page.getByText("3 operations").waitFor();
  await page.getByRole("button", { name: /charge/ }).first().click();
  await page.getByRole("complementary", { name: "Step charge" }).waitFor();
  expect(await page.getByRole("button", { name: "Fork from here…" }).count()).toBe(0);
  // A long journal is no smaller than the text that stands for it.
  const large = { name: "large.json", mimeType: "application/json", buffer: Buffer.concat([readFileSync(path), Buffer.alloc(3 << 20, " ")]) };
  await page.goto(`${lab.url}/runs/import`);
  await page.locator("input[type=file]").setInputFiles(large);
  await page.getByText("3 operations").waitFor();
  const wrong = { name: "x.json", mimeType: "application/json", buffer: Buffer.from('{"outlast_run":1}') };
  await page.locator("input[type=file]").setInputFiles(wrong);
  await page.getByRole("alert").waitFor();
});

it("reads a file wherever on the page it is dropped, and does not say that it lacks what it shows", async () => {
  const id = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const text = await (await lab.ask(`/runs/${id}/export`)).text();
  const page = await lab.page("/runs/import");
  await page.locator("h1").waitFor();
  await page.getByRole("navigation", { name: "Pages" }).evaluate((nav, text) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([text], "run.json", { type: "application/json" }));
    for (const type of ["dragover", "drop"]) nav.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer }));
  }, text);
  await page.locator("h1", { hasText: "trip, from a file" }).waitFor();
  await page.getByRole("note").getByText("nobody insures").waitFor();
  expect(await page.locator("main").innerText()).not.toMatch(/How it ended|Why it failed/);
});

it("makes a form of what a definition says of its input", async () => {
  const page = await lab.page("/definitions/order");
  await page.getByRole("button", { name: "Start…" }).click();
  await page.getByRole("textbox", { name: /^item/ }).fill("form");
  await page.getByRole("textbox", { name: /^cents/ }).fill("20000");
  await page.getByLabel("as JSON").check();
  expect(JSON.parse(await page.getByRole("textbox", { name: "Input" }).inputValue())).toMatchObject({ item: "form", cents: 20_000 });
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL("**/runs/run_*");
  await page.getByText('"form"').first().waitFor();
});

it("says once which runs it acts on", async () => {
  const alike = await lab.run({ definition: "pay_invoice", input: "once" }, "failed");
  const page = await lab.page(`/runs/${alike}`);
  await page.getByRole("link", { name: "others like it" }).first().click();
  await page.getByRole("button", { name: "Retry all like this…" }).click();
  const dialog = page.getByRole("dialog");
  await expect.poll(() => dialog.getByText(/^Which:/).innerText()).toMatch(/^Which: (def:pay_invoice )?those that failed alike$/);
  await page.goto(`${lab.url}/runs?since=all`);
  await page.getByRole("button", { name: "Act on all…" }).click();
  await dialog.getByRole("heading", { name: "Act on all runs", exact: true }).waitFor();
  expect(await dialog.getByText(/^Which:/).count()).toBe(0);
});

it("retries all runs that failed alike, and none that failed otherwise", async () => {
  const alike = await lab.run({ definition: "pay_invoice", input: "alike" }, "failed");
  const page = await lab.page(`/runs/${alike}`);
  await page.getByRole("link", { name: "others like it" }).click();
  await page.waitForURL("**/errors/*");
  const other = await lab.order("declined");
  await lab.api(`/runs/${other}/events`, { name: "approval", data: { by: "ann", ok: false } });
  await lab.until(other, "failed");
  await page.getByRole("button", { name: "Retry all like this…" }).click();
  await page.getByText("that failed alike").waitFor();
  await page.getByRole("button", { name: /^Retry \d+ runs?$/ }).click();
  await page.waitForURL("**/bulk/run_*");
  await page.locator("[data-state=completed]").waitFor();
  // It fails again, some seconds later, and its history says who wanted it.
  await expect.poll(async () => (await lab.api<{ items: { op: string }[] }>(`/runs/${alike}/history`)).items.some((entry) => entry.op === "revise")).toBe(true);
  expect(await lab.api(`/runs/${other}`)).toMatchObject({ status: "failed" });
});

it("mutes a kind of failure in this browser alone", async () => {
  const { items } = await lab.failures();
  const page = await lab.page(`/errors/${items[0]!.fingerprint}`);
  await page.getByRole("button", { name: "Mute" }).click();
  await page.getByRole("button", { name: "Unmute" }).waitFor();
  await page.getByRole("link", { name: "Errors", exact: true }).first().click();
  await page.getByRole("button", { name: /^Show \d+ muted$/ }).click();
  await page.getByRole("link", { name: /declined|insures/ }).first().waitFor();
});

it("shows the node that was lost, and how many runs were taken over", async () => {
  await lab.order("left behind");
  await lab.stop();
  await lab.start();
  const page = await lab.page("/nodes");
  await page.getByRole("link", { name: /^Lost in 24 hours \([1-9]/ }).click();
  await page.waitForURL("**/nodes?state=lost");
  await page.locator("tbody tr").first().getByRole("link").click();
  await page.getByText("Runs that others took over").waitFor();
});
