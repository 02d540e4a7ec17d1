// `npm run shots`: the screenshots of the README and of docs/dashboard.md, and of every page when `OUTLAST_SHOTS` names a folder.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, it } from "vitest";
import { Lab, type Theme } from "./lab";
import { pages, settled } from "./tour";

const IMAGES = fileURLToPath(new URL("../../docs/images", import.meta.url));
let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("takes pictures of what the README shows", async () => {
  mkdirSync(IMAGES, { recursive: true });
  const id = await lab.run({ definition: "order", input: { item: "canoe", cents: 89_900 }, key: "canoe-7", tags: { size: "large" } }, "waiting");
  await lab.api(`/runs/${id}/events`, { name: "approval", data: { by: "ann", ok: true } });
  await lab.until(id, "completed");
  await lab.failures();
  for (const theme of ["light", "dark"] as Theme[]) {
    for (const [name, path, title] of [["overview", "/", "Overview"], ["runs", "/runs", "Runs"], ["run", `/runs/${id}`, "order"]] as const) {
      const page = await lab.page(path, theme);
      await settled(page, title);
      if (name === "run") await page.getByRole("button", { name: "Steps of the child" }).click();
      if (name === "run") await page.getByText("pack", { exact: true }).waitFor();
      await page.screenshot({ path: join(IMAGES, `${name}${theme === "dark" ? "-dark" : ""}.png`) });
      await page.context().close();
    }
  }
}, 120_000);

it.runIf(process.env.OUTLAST_SHOTS)("takes pictures of every page", async () => {
  const folder = process.env.OUTLAST_SHOTS!;
  mkdirSync(folder, { recursive: true });
  for (const theme of ["light", "dark"] as Theme[]) {
    const context = await lab.somebody(theme);
    const page = await lab.page("/", theme, context);
    for (const [path, title] of await pages(lab)) {
      await page.goto(lab.url + path);
      await settled(page, title);
      await page.screenshot({ path: join(folder, `${path.replace(/run_\w+/, "ID").replaceAll(/\W+/g, "-")}-${theme}.png`) });
    }
    await context.close();
  }
}, 120_000);
