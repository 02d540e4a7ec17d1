// The dashboard in a real browser, over the real binary and its samples.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findings, Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

describe("the dashboard", () => {
  it("renders every page in both themes without complaint, and axe finds nothing serious", async () => {
    const order = await lab.order("tent");
    const pages: [string, string][] = [
      ["/", "Overview"], ["/?range=24h", "Overview"], ["/errors", "Errors"], ["/runs", "Runs"], [`/runs/${order}`, "order"], [`/runs/${order}?tab=history`, "order"], [`/runs/${order}?tab=logs`, "order"],
      [`/runs/${order}?tab=raw`, "order"], [`/runs/${order}?step=charge`, "order"], ["/queues", "Queues"], ["/schedules", "Schedules"],
      ["/nodes", "Nodes"], ["/definitions", "Definitions"], ["/bulk", "Bulk"], ["/system", "System"],
    ];
    for (const theme of ["light", "dark"] as const) {
      for (const [path, title] of pages) {
        const page = await lab.page(path, theme);
        await page.locator("h1", { hasText: title }).waitFor();
        await page.getByRole("button", { name: "Live updates: live" }).waitFor();
        expect(await findings(page), `${path} ${theme}`).toEqual([]);
        await page.context().close();
      }
    }
    expect(lab.complaints).toEqual([]);
  });

  it("keeps the filter in the address, and the address makes the same screen", async () => {
    const page = await lab.page("/runs");
    await page.getByLabel("Filter runs").fill("status:waiting,failed def:order");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/runs?status=waiting&status=failed&def=order");
    const other = await lab.page(new URL(page.url()).pathname + new URL(page.url()).search);
    for (const one of [page, other]) {
      await one.getByLabel("Remove def:order").waitFor();
      expect(await one.getByRole("listitem").filter({ hasText: "check_stock" }).count()).toBe(0);
      await one.getByRole("listitem").filter({ hasText: "waiting" }).first().waitFor();
    }
    await page.goBack();
    await page.waitForURL("**/runs");
    await other.goto(`${lab.url}/runs?def=nothing`);
    await other.getByText("No run fits").waitFor();
    await other.getByRole("button", { name: "def:nothing ×" }).click();
    await other.waitForURL("**/runs");
  });

  it("shows a run as it goes on, after its approval was sent from here", async () => {
    const id = await lab.order("canoe");
    const page = await lab.page(`/runs/${id}`);
    await page.getByText("waiting for event approval").waitFor();
    await page.getByRole("button", { name: "Send event…" }).click();
    expect(await page.getByRole("textbox", { name: "Name" }).inputValue()).toBe("approval");
    await page.getByRole("textbox", { name: "Data" }).fill('{"by":"e2e","ok":true}');
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.locator("[data-state=completed]").first().waitFor();
    await page.getByText("is on its way as parcel").waitFor();
    await page.getByRole("button", { name: "Steps of the child" }).click();
    expect(await lab.api<{ status: string }>(`/runs/${id}`)).toMatchObject({ status: "completed" });
  });

  it("looks closer at a stretch of the timeline, which stands in the address", async () => {
    const id = await lab.order("map");
    const page = await lab.page(`/runs/${id}`);
    const axis = page.getByTitle("Drag to look closer");
    const box = (await axis.boundingBox())!;
    await page.mouse.move(box.x + 50, box.y + 24);
    await page.mouse.down();
    await page.mouse.move(box.x + 200, box.y + 24, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL(/zoom=\d+-\d+/);
    await page.getByRole("button", { name: "show all" }).click();
    await page.waitForURL((url) => !url.search.includes("zoom"));
  });

  it("cancels with a reason, and shows it in the list at once", async () => {
    const id = await lab.order("lamp");
    const list = await lab.page("/runs?def=order&status=cancelled");
    const page = await lab.page(`/runs/${id}`);
    await page.getByLabel("More actions").click();
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByLabel(/Reason/).fill("a test wants it");
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByText("a test wants it").first().waitFor();
    await list.locator(`a[href="/runs/${id}"]`).waitFor();
  });

  it("forks from a step, after saying what would run again", async () => {
    const id = await lab.order("rope");
    const page = await lab.page(`/runs/${id}?step=charge`);
    await page.getByRole("button", { name: "Fork from here…" }).click();
    await page.getByText("recorded result stays").waitFor();
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    await page.waitForURL((url) => url.pathname.startsWith("/runs/run_") && !url.pathname.endsWith(id));
    await page.getByText("waiting for event approval").waitFor();
  });

  it("cancels in bulk what fits, after a preview, and shows how far it is", async () => {
    for (let i = 0; i < 3; i++) await lab.order(`bulk ${i}`);
    const page = await lab.page("/runs?status=waiting&def=order");
    await page.getByRole("button", { name: "Act on all…" }).click();
    await page.getByText("would change").waitFor();
    await page.getByLabel(/Reason/).fill("a test wants it");
    await page.getByRole("button", { name: /^Cancel \d+ runs$/ }).click();
    await page.waitForURL("**/bulk/run_*");
    await page.locator("[data-state=completed]").waitFor();
    expect(await page.getByRole("status").textContent()).toMatch(/^[3-9]\d* done, 0 skipped, 0 failed/);
    const left = await lab.api<{ count: number }>("/runs/count?def=order&status=waiting");
    expect(left.count).toBeLessThanOrEqual(1);
  });

  it("pauses and resumes a queue", async () => {
    const page = await lab.page("/queues");
    await page.getByRole("button", { name: "pause stock" }).click();
    await page.getByRole("button", { name: "Pause", exact: true }).last().click();
    await page.locator("[data-state=paused]").waitFor();
    await page.getByRole("button", { name: "resume stock" }).click();
    await page.getByRole("button", { name: "Resume", exact: true }).last().click();
    await page.getByRole("button", { name: "pause stock" }).waitFor();
  });

  it("shows numbers as they were written", async () => {
    const { id } = await lab.api<{ id: string }>("/runs", '{"definition":"heartbeat","input":9007199254740993,"delay_ms":3600000}');
    const page = await lab.page(`/runs/${id}`);
    await page.getByRole("region", { name: "input" }).getByText("9007199254740993", { exact: true }).waitFor();
  });

  it("goes anywhere by keyboard", async () => {
    const page = await lab.page("/runs");
    await page.locator("h1", { hasText: "Runs" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await page.waitForURL("**/queues");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Jump to" }).fill("pay_inv");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/runs?def=pay_invoice");
    await page.keyboard.press("/");
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("filter");
  });

  it("says that it has lost the server, and goes on when it is back", async () => {
    const page = await lab.page("/runs");
    await page.getByRole("button", { name: "Live updates: live" }).waitFor();
    await lab.stop();
    await page.getByRole("button", { name: /Live updates: (reconnecting|polling)/ }).waitFor();
    await lab.start();
    const id = await lab.order("back again");
    await page.getByRole("button", { name: "Live updates: live" }).waitFor();
    await page.locator(`a[href="/runs/${id}"]`).waitFor();
  });
});
