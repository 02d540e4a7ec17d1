// Where no stream comes through, as behind some proxies, pages ask by the clock.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("shows what became of a run though no stream tells of it", async () => {
  const id = await lab.order("unheard");
  const context = await lab.somebody();
  let streams = 0;
  await context.route("**/api/v1/live*", (route) => (streams++, route.abort()));
  const page = await lab.page(`/runs/${id}`, "light", context);
  await page.locator("main [data-state=waiting]").first().waitFor();
  await page.getByRole("button", { name: "Live updates: polling" }).waitFor();
  expect(streams).toBeGreaterThanOrEqual(3);
  await lab.api(`/runs/${id}/cancel`, { reason: "nobody heard of it" });
  await page.locator("main [data-state=cancelled]").first().waitFor();
  await page.getByText("nobody heard of it").first().waitFor();
  // As soon as one comes through nothing is asked by the clock any more.
  await context.unroute("**/api/v1/live*");
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
});
