import { describe, expect, it, vi } from "vitest";
import type { Step } from "../lib/state";

vi.mock("../api/client", () => ({ api: {}, data: {} }));
const { allSteps } = await import("./steps");

/// A run of so many steps, and what was asked for.
function journal(total: number) {
  const asked: [number, number][] = [];
  const page = async (after: number, limit: number) => {
    asked.push([after, limit]);
    const items = Array.from({ length: Math.max(0, Math.min(limit, total - after)) }, (_, at) => ({ op: "step", name: String(after + at) }) as Step);
    return { items, total, next_after: after + items.length < total ? after + items.length : null };
  };
  return { page, asked };
}
const names = (steps: Step[]) => steps.map((step) => step.name);

describe("the steps of a run", () => {
  it("come at once where they are few", async () => {
    const { page, asked } = journal(150);
    const show = vi.fn();
    expect((await allSteps(page, show)).items).toHaveLength(150);
    expect(asked).toHaveLength(1);
    expect(show).not.toHaveBeenCalled();
  });
  it("show both ends of a long run first, and then all of it, each once", async () => {
    const { page } = journal(23_456);
    const show = vi.fn();
    const all = await allSteps(page, show);
    const first = show.mock.calls[0]![0];
    expect([first.items.length, first.total, first.items.at(-1).name]).toEqual([400, 23_456, "23455"]);
    expect(names(all.items)).toEqual(Array.from({ length: 23_456 }, (_, at) => String(at)));
    expect(all.total).toBe(23_456);
  });
  it("are asked for at once where they were shown before", async () => {
    const { page, asked } = journal(9000);
    expect((await allSteps(page)).items).toHaveLength(9000);
    expect(asked).toHaveLength(1);
  });
  it("show nothing twice where the ends meet", async () => {
    const { page } = journal(250);
    const show = vi.fn();
    await allSteps(page, show);
    expect(names(show.mock.calls[0]![0].items)).toEqual(Array.from({ length: 250 }, (_, at) => String(at)));
  });
});
