// What dialogs offer, and what they say while somebody writes into them: before it is sent, and not because it was.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("offers each version of a fork once, and forks to one that a node knows", async () => {
  const id = await lab.order("another version");
  const page = await lab.page(`/runs/${id}?step=step:charge`);
  const fork = page.getByRole("button", { name: "Fork from here…" });
  const version = page.getByRole("combobox", { name: "Version" });
  await fork.click();
  await expect.poll(() => version.locator("option").allInnerTexts()).toEqual(["that of this run and of new runs (1)"]);
  await page.getByRole("button", { name: "Not now" }).click();
  // Another one is still up that knows an older version, or one that is not for everybody yet.
  const also = (path: string, change: (one: { items: Record<string, unknown>[] }) => object) => page.route(`**/api/v1/${path}`, async (route) => route.fulfill({ json: change((await (await route.fetch()).json()) as never) }));
  await also("definitions/order", ({ items }) => ({ items: [...items, { ...items[0], version: 7, active: false }] }));
  await also("nodes", ({ items }) => ({ items: items.map((node) => ({ ...node, codes: [...(node.codes as string[]), "order@7"] })) }));
  const asked: { version?: number; latest: boolean; dry_run: boolean }[] = [];
  await page.route("**/fork", (route) => {
    const body = route.request().postDataJSON() as (typeof asked)[0];
    asked.push(body);
    return route.continue({ postData: JSON.stringify({ ...body, version: undefined }) });
  });
  await page.reload();
  await fork.click();
  await expect.poll(() => version.locator("option").allInnerTexts()).toEqual(["that of this run and of new runs (1)", "7, which 1 node knows"]);
  await version.selectOption("7");
  await expect.poll(() => asked.at(-1)?.version).toBe(7);
  await page.getByRole("dialog").getByText(/recorded results? stays?/).waitFor();
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/runs/run_") && !url.pathname.endsWith(id));
  expect(asked.filter((one) => !one.dry_run)).toMatchObject([{ version: 7, latest: false }]);
});

it("says of an input that it is no JSON while it is written, and sends none that is not", async () => {
  const id = await lab.order("half written");
  const page = await lab.page(`/runs/${id}?step=step:charge`);
  const dialog = page.getByRole("dialog");
  const written = async (does: string, name: string) => {
    const input = dialog.getByRole("textbox", { name });
    const send = dialog.getByRole("button", { name: does, exact: true });
    await expect.poll(() => send.isEnabled()).toBe(true);
    await input.fill('{"item":');
    await dialog.getByText("this is none yet").waitFor();
    expect([await input.getAttribute("aria-invalid"), await send.isEnabled()]).toEqual(["true", false]);
    await input.fill('{"item":"whole","cents":50000}');
    await expect.poll(() => send.isEnabled()).toBe(true);
    expect(await dialog.getByText("this is none yet").count()).toBe(0);
    await dialog.getByRole("button", { name: "Not now" }).click();
    await dialog.waitFor({ state: "detached" });
  };
  await page.getByRole("button", { name: "Fork from here…" }).click();
  await written("Fork", "Input");
  await page.goto(`${lab.url}/definitions/order`);
  await page.getByRole("button", { name: "Start…" }).click();
  await dialog.getByLabel("as JSON").check();
  await written("Start", "Input");
  await page.goto(`${lab.url}/schedules/stock-check`);
  await page.getByRole("button", { name: "Edit…" }).click();
  await written("Save", "Input");
});

it("has the fields of a form in the order of its schema, and leaves what is typed where another schema comes meanwhile", async () => {
  const page = await lab.page("/definitions/order");
  await page.getByRole("button", { name: "Start…" }).click();
  const dialog = page.getByRole("dialog");
  const names = () => dialog.locator("label > span").evaluateAll((all) => all.map((one) => one.firstChild!.textContent));
  await expect.poll(names).toEqual(["item", "cents", "Key", "Reason"]);
  await dialog.getByRole("textbox", { name: /^item/ }).fill("typed");
  let asked = 0;
  await page.route("**/api/v1/definitions/order", async (route) => {
    asked++;
    await route.fulfill({ body: (await (await route.fetch()).text()).replaceAll('"item"', '"thing"'), contentType: "application/json" });
  });
  await expect.poll(() => asked).toBeGreaterThan(1);
  expect(await names()).toEqual(["item", "cents", "Key", "Reason"]);
  expect(await dialog.getByRole("textbox", { name: /^item/ }).inputValue()).toBe("typed");
});
