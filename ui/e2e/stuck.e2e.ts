// Runs that do not go on, and what is said and offered then.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
/// In a queue that no node serves: it is blocked after ten seconds.
let nobody: string;
beforeAll(async () => {
  lab = await Lab.open();
  nobody = await lab.run({ definition: "heartbeat", input: 0, queue: "nobody" }, "blocked");
});
afterAll(() => lab.close());

it("says of a run that is blocked for want of a node what helps, and offers no fork", async () => {
  const page = await lab.page(`/runs/${nobody}`);
  const why = page.locator("main [role=status]").filter({ hasText: "Why is it not running?" });
  await why.getByText("Blocked: no node that knows heartbeat@1 serves queue nobody.").waitFor();
  expect(await why.innerText()).toContain('s.queues = vec!["nobody".into()]');
  expect(await why.innerText()).not.toMatch(/Deploy|fork/);
  await page.getByRole("button", { name: "Explain" }).click();
  const dialog = page.getByRole("dialog", { name: "Why is it not running?" });
  await dialog.getByText("no node that knows heartbeat@1 serves queue nobody").first().waitFor();
  await page.keyboard.press("Escape");
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: "Cancel…" }).waitFor();
  expect(await page.getByRole("button", { name: /^Fork/ }).count()).toBe(0);
  // It was blocked, and not in line.
  const spent = await page.getByRole("img", { name: /^Time:/ }).getAttribute("aria-label");
  expect(spent).toMatch(/blocked/);
  expect(spent).not.toMatch(/in line/);
});

it("warns of a queue whose runs are blocked for want of a node: on the first page, among queues and on its own", async () => {
  const page = await lab.page("/");
  const warning = page.getByRole("status", { name: "Warnings" }).getByText(/No node serves queue nobody: 1 run of it is blocked/);
  await warning.waitFor();
  await page.getByRole("link", { name: "Queues", exact: true }).first().click();
  await warning.waitFor();
  await page.getByRole("row", { name: /^nobody/ }).getByText("none", { exact: true }).first().waitFor();
  await page.getByRole("row", { name: /^nobody/ }).getByRole("link", { name: "nobody" }).click();
  await page.getByText(/No node serves this queue: 1 run is blocked/).first().waitFor();
  await page.goBack();
  await page.getByRole("status", { name: "Warnings" }).getByRole("link", { name: "1 run" }).click();
  await page.locator(`a[href="/runs/${nobody}"]`).waitFor();
});

it("offers first to retry an undo that gave up, and to kill a run only after it was asked to stop", async () => {
  const trip = await lab.run({ definition: "trip", input: "Atlantis" }, "undo_failed");
  const page = await lab.page(`/runs/${trip}`);
  await page.getByRole("button", { name: "Retry undo…" }).click();
  await page.getByRole("dialog", { name: "Try to undo it again?" }).waitFor();
  await page.keyboard.press("Escape");
  await page.goto(`${lab.url}/runs/${await lab.order("alive")}`);
  await page.getByText("waiting for event approval").waitFor();
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: "Cancel…" }).waitFor();
  expect(await page.getByRole("button", { name: "Kill…" }).count()).toBe(0);
});

it("says before it acts on chosen runs how many of them change", async () => {
  const key = "chosen";
  const [waits, ended] = [await lab.order("waits"), await lab.run({ definition: "ship", input: "shelf 3", key }, "completed")];
  const page = await lab.page("/runs");
  for (const id of [waits, ended]) await page.getByRole("listitem").filter({ has: page.locator(`a[href="/runs/${id}"]`) }).getByRole("checkbox").click();
  await page.getByRole("button", { name: "Act on them…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("1 would change, 1 stays as it is.").waitFor();
  await dialog.getByRole("button", { name: "Cancel 1 run", exact: true }).waitFor();
  await page.getByLabel("What").selectOption("resume");
  await dialog.getByText("0 would change, 2 stay as they are.").waitFor();
  expect(await dialog.getByRole("button", { name: "Resume 0 runs" }).isDisabled()).toBe(true);
  await page.getByLabel("What").selectOption("delete");
  await dialog.getByRole("button", { name: "Delete 1 run", exact: true }).waitFor();
});

it("counts what failed in a day by when it failed, also where it was started long before", async () => {
  const failed = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const page = await lab.page("/");
  const asked: string[] = [];
  await page.route("**/api/v1/runs?*", async (route) => {
    asked.push(new URL(route.request().url()).search);
    await route.continue();
  });
  await page.getByRole("link", { name: /^Failed in 1h/ }).click();
  await page.waitForURL("**/runs?status=failed&ended=1h");
  await page.locator(`a[href="/runs/${failed}"]`).waitFor();
  await page.getByLabel("Remove ended:1h").waitFor();
  await page.getByRole("link", { name: "Failed 24 h" }).click();
  await page.waitForURL("**/runs?status=failed&ended=24h");
  await page.locator(`a[href="/runs/${failed}"]`).waitFor();
  expect(asked.filter((one) => one.includes("ended"))).not.toEqual([]);
  expect(asked.filter((one) => one.includes("ended") && one.includes("since"))).toEqual([]);
  // All of them can be acted on: the words of the filter are those of a bulk.
  await page.getByRole("button", { name: "Act on all…" }).click();
  await page.getByText("ended:24h").first().waitFor();
  await page.getByText("would change").waitFor();
});
