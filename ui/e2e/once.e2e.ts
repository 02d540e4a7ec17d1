// What people do is done once, also where its answer is lost or they press twice.
import type { Page, Request } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

/// How many runs have been started with this input.
async function started(input: string): Promise<number> {
  const { items } = await lab.api<{ items: { input: unknown }[] }>("/runs?def=remind&limit=500");
  return items.filter((run) => run.input === input).length;
}

/// Has the server do what is posted to this address, and loses its next answer.
async function loseOne(page: Page, url: string) {
  await page.route(url, async (route) => {
    await route.fetch();
    await route.abort();
  }, { times: 1 });
}

/// What pages post, in the order in which they do.
function posts(page: Page): Request[] {
  const all: Request[] = [];
  page.on("request", (request) => request.method() === "POST" && all.push(request));
  return all;
}

const keyOf = (request: Request | undefined) => request?.headers()["idempotency-key"];

async function startDialog(page: Page, input: string) {
  await page.getByRole("button", { name: "Start…" }).click();
  await lab.writeInput(page, JSON.stringify(input));
}

it("starts one run where the answer to the first click was lost, and another where the input was changed meanwhile", async () => {
  const page = await lab.page("/definitions/remind");
  const sent = posts(page);
  const press = () => page.getByRole("button", { name: "Start", exact: true }).click();
  await loseOne(page, "**/api/v1/runs");
  await startDialog(page, "lost once");
  await press();
  await page.getByRole("alert").getByText("The server cannot be reached.").waitFor();
  expect(await started("lost once")).toBe(1);
  await press();
  await page.waitForURL("**/runs/run_*");
  expect(await started("lost once")).toBe(1);
  expect(sent.map(keyOf)).toEqual([keyOf(sent[0]), keyOf(sent[0])]);
  expect(keyOf(sent[0])).toMatch(/^[0-9a-f]{32}-\w+$/);

  await page.goto(`${lab.url}/definitions/remind`);
  await loseOne(page, "**/api/v1/runs");
  await startDialog(page, "not what was meant");
  await press();
  await page.getByRole("alert").getByText("The server cannot be reached.").waitFor();
  await lab.writeInput(page, '"what was meant"');
  await press();
  await page.waitForURL("**/runs/run_*");
  expect([await started("not what was meant"), await started("what was meant")]).toEqual([1, 1]);
  expect(new Set(sent.map(keyOf)).size).toBe(3);

  // The same once more, in a dialog of its own, is meant once more.
  await page.goto(`${lab.url}/definitions/remind`);
  await startDialog(page, "what was meant");
  await press();
  await page.waitForURL("**/runs/run_*");
  expect(await started("what was meant")).toBe(2);
});

it("starts one run for a double click", async () => {
  const page = await lab.page("/definitions/remind");
  await startDialog(page, "pressed twice");
  await page.getByRole("button", { name: "Start", exact: true }).dblclick();
  await page.waitForURL("**/runs/run_*");
  expect(await started("pressed twice")).toBe(1);
});

it("waits for what is being done already, instead of telling somebody to press again", async () => {
  const page = await lab.page("/definitions/remind");
  const answers: number[] = [];
  page.on("response", (response) => response.request().method() === "POST" && answers.push(response.status()));
  let isFirst = true;
  await page.route("**/api/v1/runs", (route) => {
    if (!isFirst) return route.continue();
    isFirst = false;
    return route.fulfill({ status: 409, json: { code: "in_progress", detail: "the same request is being answered" } });
  });
  await startDialog(page, "in progress");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await expect.poll(() => answers).toEqual([409, 201]);
  await page.waitForURL("**/runs/run_*");
  expect(await started("in progress")).toBe(1);
});

it("takes what it did itself before an answer was lost for done, and what somebody else did for theirs", async () => {
  const page = await lab.page("/queues/stock");
  const dialog = page.getByRole("dialog");
  const limits = async (limit: string) => {
    await page.getByRole("button", { name: "Limits…" }).click();
    await page.getByLabel("At once, on all nodes together").fill(limit);
    await loseOne(page, "**/api/v1/queues/stock/limits");
    await page.getByRole("button", { name: "Set limits" }).click();
    await dialog.getByText("The server cannot be reached.").waitFor();
  };
  await limits("5");
  await page.getByRole("button", { name: "Set limits" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByText("5 at once").waitFor();
  await limits("6");
  lab.cli("queue", "limit", "stock", "--limit", "7");
  await page.getByRole("button", { name: "Set limits" }).click();
  await dialog.getByText(/changed/).waitFor();
  expect(await lab.api("/queues/stock")).toMatchObject({ rules: { limit: 7 } });
  await page.keyboard.press("Escape");
  await page.getByText("7 at once").waitFor();

  await page.getByRole("button", { name: "Limits…" }).click();
  await page.getByLabel("back to what code says").check();
  await loseOne(page, "**/api/v1/queues/stock/limits*");
  await page.getByRole("button", { name: "Use what code says" }).click();
  await dialog.getByText("The server cannot be reached.").waitFor();
  await page.getByRole("button", { name: "Use what code says" }).click();
  await dialog.waitFor({ state: "detached" });

  await page.goto(`${lab.url}/schedules/stock-check`);
  await page.getByRole("button", { name: "Edit…" }).click();
  await page.getByRole("textbox", { name: /^When/ }).fill("every 20m");
  let isLost = false;
  await page.route("**/api/v1/schedules/stock-check", async (route) => {
    if (isLost || route.request().method() !== "PUT") return route.continue();
    isLost = true;
    await route.fetch();
    await route.abort();
  });
  await page.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("The server cannot be reached.").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByText("every 20m").first().waitFor();
});

it("sends a key with whatever changes something, and none with what only says what would be", async () => {
  const failed = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const page = await lab.page(`/runs/${failed}`);
  const sent = posts(page);
  await page.getByRole("button", { name: "Retry…" }).click();
  await page.getByText(/recorded results? stays?/).waitFor();
  await page.getByRole("button", { name: "Retry", exact: true }).click();
  const done = () => sent.filter((one) => !(one.postDataJSON() as { dry_run?: boolean }).dry_run).map(keyOf);
  await expect.poll(() => done().length).toBe(1);
  await page.goto(`${lab.url}/queues/stock`);
  await page.getByRole("button", { name: "pause stock" }).click();
  await page.getByRole("button", { name: "Pause", exact: true }).last().click();
  await page.getByRole("button", { name: "resume stock" }).waitFor();
  expect(new Set(done()).size).toBe(2);
  for (const key of done()) expect(key).toMatch(/^[0-9a-f]{32}-\w+$/);
  // What only says what would be may be asked for again and again.
  const asked = sent.filter((one) => (one.postDataJSON() as { dry_run?: boolean }).dry_run);
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.map(keyOf)).toEqual(asked.map(() => undefined));
  await lab.api("/queues/stock/resume", {});
});
