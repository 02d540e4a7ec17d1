import { describe, expect, it, vi } from "vitest";
import type { Step } from "../lib/state";

vi.mock("../api/client", () => ({ api: {}, data: {} }));
const { allSteps, laterSteps } = await import("./steps");

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

describe("the steps of a run that goes on", () => {
  const done = (name: string, result: unknown = 1) => ({ op: "step", name, state: "completed", ended_at: "2026-01-01T00:00:00Z", attempts: [], result }) as unknown as Step;
  const open = (name: string) => ({ op: "step", name, state: "running", ended_at: null, attempts: [] }) as unknown as Step;
  const failed = (name: string) => ({ ...done(name), state: "failed" }) as Step;
  const revise = (name: string) => ({ ...done(name), op: "revise" }) as Step;
  /// What is known after the run has come to these steps, and from where on they were asked for.
  async function again(known: Step[], now: Step[]) {
    const asked: number[] = [];
    const page = async (after: number, limit: number) => {
      asked.push(after);
      const items = now.slice(after, after + limit);
      return { items, total: now.length, next_after: after + items.length < now.length && items.length ? after + items.length : null };
    };
    const found = await laterSteps(known, page);
    expect(found).toEqual({ items: now, total: now.length });
    return { asked, found };
  }

  it("are asked for from the last one on that stays, and the others are those that were there", async () => {
    const known = [done("a"), done("b"), open("c")];
    const { asked, found } = await again(known, [done("a"), done("b"), done("c"), open("d")]);
    expect(asked).toEqual([1]);
    expect(found.items[0]).toBe(known[0]);
  });
  it("are all asked for where none stays", async () => {
    expect((await again([open("a"), done("b")], [done("a"), done("b")])).asked).toEqual([0]);
    expect((await again([], [done("a")])).asked).toEqual([0]);
  });
  it("are looked at again from an undo that gave up: it may have been tried again", async () => {
    const undo = (state: string) => ({ ...done("a"), op: "undo", state }) as Step;
    expect((await again([done("a"), done("b"), undo("failed")], [done("a"), done("b"), undo("completed")])).asked).toEqual([1]);
    expect((await again([done("a"), failed("b"), open("c")], [done("a"), failed("b"), done("c")])).asked).toEqual([1]);
  });
  it("are all asked for where the run was taken back, or began anew", async () => {
    const known = [done("a"), done("b"), done("c"), done("d")];
    expect((await again(known, [done("a"), done("b")])).asked).toEqual([3, 0]);
    expect((await again(known, [done("a"), done("b", 2), done("c", 2), done("d", 2), open("e")])).asked).toEqual([3, 0]);
    expect((await again(known, [done("other")])).asked).toEqual([3, 0]);
  });
  it("are all asked for where somebody has had one tried again, or given one another result, and not for that again", async () => {
    expect((await again([done("a"), failed("b"), done("c")], [done("a"), done("b"), done("c"), revise("r")])).asked).toEqual([2, 0]);
    const known = [done("a"), done("b"), done("c")];
    const now = [done("a", "other"), done("b"), done("c"), revise("r")];
    expect((await again(known, now)).asked).toEqual([2, 0]);
    expect((await again(now, [...now, done("d")])).asked).toEqual([3]);
  });
});
