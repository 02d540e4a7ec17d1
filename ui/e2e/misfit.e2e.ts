// A run whose journal does not fit what its code does with its input.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open();
});
afterAll(() => lab.close());

it("says of a run that its journal does not fit: at which entry, what is recorded there, and what the code wants", async () => {
  const id = await lab.order("misfit");
  await lab.api(`/runs/${id}/events`, { name: "approval", data: { by: "e2e", ok: true } });
  await lab.until(id, "completed");
  // An order of that price needs no approval, and one is recorded.
  const { items } = await lab.api<{ items: { op: string; name: string }[] }>(`/runs/${id}/steps`);
  const sleep = items.find((step) => step.op === "sleep")!;
  const { id: fork } = await lab.api<{ id: string }>(`/runs/${id}/fork`, { from: `sleep:${sleep.name}`, input: { item: "misfit", cents: 900 } });
  await lab.until(fork, "blocked");
  const page = await lab.page(`/runs/${fork}`);
  const why = page.locator("main [role=status]").filter({ hasText: "Why is it not running?" });
  // Which step, what stands in the journal, and what the code wants there.
  const words = 'the journal goes on with event "approval" (entry 4), but the code waits for sleep "sleep"';
  await why.getByText(words).waitFor();
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await page.getByRole("dialog", { name: "Why is it not running?" }).getByText(words).waitFor();
  await page.keyboard.press("Escape");
  await why.getByRole("link", { name: "history" }).click();
  const entry = page.getByRole("row").filter({ hasText: "approval" }).filter({ hasText: "done" });
  await entry.waitFor();
  expect(await entry.innerText()).toMatch(/^4\s/);
});
