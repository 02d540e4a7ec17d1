// What people do and what pages show, on PostgreSQL: it answers in its own words what SQLite answers elsewhere.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Lab, POSTGRES } from "./lab";
import { story } from "./story";
import { pages, settled } from "./tour";

describe.runIf(POSTGRES)("on PostgreSQL", () => story(POSTGRES));

describe.runIf(POSTGRES)("every page on PostgreSQL", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await Lab.open("dev", POSTGRES);
  });
  afterAll(() => lab.close());

  it("renders without complaint", async () => {
    const page = await lab.page("/");
    for (const [path, title] of await pages(lab)) {
      await page.goto(lab.url + path);
      await settled(page, title);
    }
    expect(lab.complaints).toEqual([]);
  });
});
