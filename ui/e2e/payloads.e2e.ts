// Payloads, names and tags of any size and depth: all of it can be read, and nothing bursts what it stands in.
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { findings, Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

/// How far the page is wider than its place.
const beyond = (page: Page) => page.locator("#main").evaluate((main) => main.scrollWidth - main.clientWidth);
const later = { delay_ms: 3_600_000 };

it("opens the rest of a long text by a button that everybody can use", async () => {
  const { id } = await lab.api<{ id: string }>("/runs", { definition: "remind", input: `${"long ".repeat(600)}end`, ...later });
  for (const theme of ["light", "dark"] as const) {
    const page = await lab.page(`/runs/${id}`, theme);
    const rest = page.getByRole("button", { name: "… 1,003 more letters" });
    await rest.waitFor();
    expect(await findings(page, theme)).toEqual([]);
    await rest.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "input" }).getByText(/long end"$/).waitFor();
    await page.context().close();
  }
});

it("keeps what is nested deeply inside of its panel, and opens it level by level", async () => {
  let deep: unknown = "the end";
  for (let depth = 40; depth > 0; depth--) deep = { [`level ${depth} ${"x".repeat(20)}`]: deep };
  const { id } = await lab.api<{ id: string }>("/runs", { definition: "order", input: { item: "map", cents: 1, deep }, ...later });
  const page = await lab.page(`/runs/${id}`);
  const region = page.getByRole("region", { name: "input" });
  await region.getByText(/level 3 /).waitFor();
  expect(await region.getByText(/level 4 /).count()).toBe(0);
  for (let depth = 4; depth <= 40; depth++) await region.getByRole("button", { name: "Open: 1 field" }).click();
  await region.getByText("the end").waitFor();
  const panel = region.locator("xpath=ancestor::section[1]");
  expect(await panel.evaluate((one) => one.scrollWidth - one.clientWidth)).toBeLessThanOrEqual(0);
  expect(await beyond(page)).toBeLessThanOrEqual(0);
});

it("breaks a tag of two hundred letters, and shows facts in two columns on a telephone", async () => {
  const { id } = await lab.api<{ id: string }>("/runs", { definition: "remind", input: "x", tags: { city: "y".repeat(200) }, ...later });
  const page = await lab.page(`/runs/${id}`);
  await page.getByText(/^city=y/).waitFor();
  expect(await beyond(page)).toBeLessThanOrEqual(0);
  await page.setViewportSize({ width: 390, height: 800 });
  // What is as wide as its place follows a frame later.
  await expect.poll(() => beyond(page)).toBeLessThanOrEqual(0);
  const [version, queue] = [page.getByText(/^version /), page.getByText(/^queue /)];
  await expect.poll(async () => (await version.boundingBox())!.y - (await queue.boundingBox())!.y).toBe(0);
  // Nor does it leave the list, at any width.
  for (const width of [1280, 1120, 1024, 961]) {
    await page.setViewportSize({ width, height: 800 });
    await page.goto(`${lab.url}/runs?def=remind`);
    const tag = page.locator("[data-col=tags]").filter({ hasText: "city=" }).first();
    await tag.waitFor();
    const edge = (await page.getByRole("list", { name: "Runs" }).boundingBox())!;
    const cell = (await tag.boundingBox())!;
    expect(cell.x + cell.width, String(width)).toBeLessThanOrEqual(edge.x + edge.width);
  }
});

it("has no more of a long payload sent than it shows, and all of it as a file", async () => {
  const long = `begins ${"é".repeat(150_000)} ends`;
  const { id } = await lab.api<{ id: string }>("/runs", { definition: "remind", input: long, ...later });
  const page = await lab.page("/settings");
  const sizes: number[] = [];
  page.on("response", (answer) => void (answer.url().includes(id) && !answer.url().includes("live") && answer.body().then((body) => sizes.push(body.length), () => {})));
  await page.goto(`${lab.url}/runs/${id}`);
  await page.getByText("The first 64 KiB of 293 KiB are shown: download it for the rest.").waitFor();
  const region = page.getByRole("region", { name: "input" });
  expect(await region.innerText()).toMatch(/^"begins é/);
  expect(Math.max(...sizes)).toBeLessThan(66_000);
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "download 293 KiB" }).click()]);
  expect(JSON.parse(readFileSync(await file.path(), "utf8"))).toBe(long);
  // A fork begins with all of it.
  await page.goto(`${lab.url}/runs/${id}`);
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: "Rerun…" }).click();
  await expect.poll(() => page.getByRole("textbox", { name: "Input" }).inputValue()).toBe(JSON.stringify(long));
});
