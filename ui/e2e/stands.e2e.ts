// How an installation stands: what it is called and goes by, what is wrong with it, and who of a queue is served.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  process.env.OUTLAST_ENVIRONMENT = "production";
  lab = await Lab.open();
});
afterAll(async () => {
  delete process.env.OUTLAST_ENVIRONMENT;
  await lab.close();
});

it("says on every page which installation it is", async () => {
  for (const path of ["/", "/runs", "/system"]) {
    const page = await lab.page(path);
    await page.getByRole("banner").getByText("production", { exact: true }).waitFor();
    await page.close();
  }
});

it("shows what the server goes by, and where each setting comes from", async () => {
  const page = await lab.page("/system");
  const settings = page.getByRole("region", { name: "Settings of the server" });
  const row = settings.getByRole("row").filter({ hasText: "environment" }).first();
  expect(await row.innerText()).toMatch(/environment\s+production\s+environment OUTLAST_ENVIRONMENT/);
  await settings.getByText("sqlite://").waitFor();
});

it("warns of failing checks on the first page, though nobody has opened System", async () => {
  const page = await lab.page("/settings");
  const asked: string[] = [];
  await page.route("**/api/v1/system/checks*", async (route) => {
    asked.push(new URL(route.request().url()).search);
    const found = (await (await route.fetch()).json()) as { items: { name: string; status: string; detail: string }[] };
    found.items[0] = { ...found.items[0]!, status: "fail", detail: "it is on fire" };
    await route.fulfill({ json: found });
  });
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("status", { name: "Warnings" }).getByText("it is on fire").waitFor();
  // To look is much to ask: what anybody was told in the last minutes will do.
  expect([...new Set(asked)]).toEqual(["?max_age=10m"]);
});

it("warns where runs stay for longer than they should, and says when the next goes", async () => {
  const page = await lab.page("/settings");
  let late = -3 * 3_600_000;
  await page.route("**/api/v1/system", async (route) => {
    const found = (await (await route.fetch()).json()) as Record<string, unknown>;
    const next_purge_at = new Date(Date.now() + late).toISOString();
    await route.fulfill({ json: { ...found, next_purge_at, retention: [{ definition: null, keeps_ms: { completed: 86_400_000 } }] } });
  });
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("status", { name: "Warnings" }).getByText(/should have been deleted 3 h/).waitFor();
  await page.getByRole("link", { name: "System" }).first().click();
  await page.getByText(/^The first should have been deleted 3 h/).waitFor();
  late = 2 * 3_600_000;
  await page.reload();
  await page.getByText(/The first goes in [12] h/).waitFor();
  await page.goto(`${lab.url}/`);
  await page.locator("main").getByText("stock", { exact: true }).waitFor();
  expect(await page.getByText("should have been deleted").count()).toBe(0);
});

it("shows the busiest groups of a queue, and how much of what each may have is used", async () => {
  const set = await fetch(`${lab.url}/api/v1/queues/stock/limits`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ limit: 3, per_group: 2 }) });
  expect(set.status).toBe(200);
  const page = await lab.page("/queues/stock");
  const groups = page.getByRole("region", { name: "Groups" });
  await groups.getByText("No run of a group is in hand.").waitFor();
  let isOver = false;
  // Each takes a third of a second: there is always one in hand.
  const feed = (async () => {
    while (!isOver) {
      await Promise.all(["ann", "ann", "ann", "bob"].map((group) => lab.api("/runs", { definition: "check_stock", input: 1, queue: "stock", group })));
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
  })();
  try {
    const row = groups.getByRole("row").filter({ hasText: "ann" });
    await expect.poll(() => row.innerText()).toMatch(/^ann\s+[12]\s+\/ 2\s+[\d,]+$/);
  } finally {
    isOver = true;
    await feed;
  }
});
