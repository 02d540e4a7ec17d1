// Every page there is, with something on it: for the tests and for the screenshots.
import type { Page } from "playwright-core";
import type { Lab } from "./lab";

/// Addresses, and the heading of each.
export async function pages(lab: Lab): Promise<[string, string][]> {
  const order = await lab.order("tent");
  const trip = await lab.run({ definition: "trip", input: "Luna" }, "failed");
  const { id: bulk } = await lab.api<{ id: string }>("/bulk", { op: "pause", filter: "def:nothing", reason: "a tour" });
  const { items: nodes } = await lab.api<{ items: { id: string }[] }>("/nodes");
  const { items: errors } = await lab.failures();
  // What makes pages warn of something.
  const tour = { definition: "remind", input: "held back", queue: "tour" };
  await lab.api("/runs", { ...tour, delay_ms: 3_600_000 });
  await lab.api("/queues/tour/pause", { reason: "a tour" });
  const { id: held } = await lab.api<{ id: string }>("/runs", tour);
  return [
    ["/", "Overview"], ["/?range=24h", "Overview"], ["/errors", "Errors"], ["/errors?def=trip", "Errors"], [`/errors/${errors[0]!.fingerprint}`, errors[0]!.definition],
    ["/runs", "Runs"], ["/runs?def=nothing", "Runs"], ["/runs?cols=key,id,node,priority", "Runs"],
    [`/runs/${order}`, "order"], [`/runs/${order}?tab=history`, "order"], [`/runs/${order}?tab=logs`, "order"],
    [`/runs/${order}?tab=raw`, "order"], [`/runs/${order}?step=step:charge`, "order"], [`/runs/${trip}?step=undo:hotel`, "trip"], [`/runs/${held}`, "remind"], ["/queues", "Queues"], ["/queues/stock", "stock"], ["/queues/tour", "tour"],
    ["/schedules", "Schedules"], ["/schedules/stock-check", "stock-check"], ["/nodes", "Nodes"], ["/nodes?state=lost", "Nodes"], [`/nodes/${nodes[0]!.id}`, "Nodes"],
    ["/definitions", "Definitions"], ["/definitions/order", "order"], ["/bulk", "Bulk"], [`/bulk/${bulk}`, "Bulk"], ["/system", "System"],
    ["/settings", "Settings"], ["/runs/import", "Open an exported run"],
  ];
}

/// Waits until a page shows what it has.
export async function settled(page: Page, title: string) {
  await page.locator("h1", { hasText: title }).waitFor();
  await page.getByRole("button", { name: "Live updates: live" }).waitFor();
  await page.getByText("Loading…").first().waitFor({ state: "detached" });
}
