// The list of runs where there is nothing in it, or it could not be had in time.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  // It has no samples.
  lab = await Lab.open("api");
});
afterAll(() => lab.close());

it("shows how a first run comes about where there has been none", async () => {
  const page = await lab.page("/runs");
  await page.getByRole("heading", { name: "No runs yet" }).waitFor();
  const empty = await page.locator("main").innerText();
  expect(empty).toContain("#[outlast::workflow]");
  expect(empty).toContain("outlast dev");
  expect(await page.getByRole("link", { name: "documentation" }).getAttribute("href")).toContain("docs.rs/outlast");
  // Also where something is looked for: there is nothing to leave away.
  await page.goto(`${lab.url}/runs?status=failed`);
  await page.getByRole("heading", { name: "No runs yet" }).waitFor();
});

it("says what helps where a list takes too long", async () => {
  const page = await lab.page("/settings");
  await page.route("**/api/v1/runs?*", (route) => route.fulfill({ status: 503, json: { code: "timeout", detail: "The database took too long." } }));
  await page.getByRole("link", { name: "Runs", exact: true }).first().click();
  await page.getByRole("alert").getByText("The database took too long. Narrow the window of time, or name a definition.").waitFor();
});
