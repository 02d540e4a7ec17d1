import { describe, expect, it, vi } from "vitest";
import type { Step } from "../lib/state";
import { type Known, laterLines, narrowings, PAGE, stepsOfLines, written } from "./lines";

/// The log of a run of so many lines, as the API pages it: it passes over all of them, and sends those of one step.
function log(size: number, isOf: (nth: number) => boolean = () => true) {
  const asked: number[] = [];
  const page = async (after: number) => {
    asked.push(after);
    const next_after = Math.min(size, after + PAGE);
    return { items: Array.from({ length: next_after - after }, (_, at) => after + at).filter(isOf), next_after, has_more: next_after - after === PAGE };
  };
  return { page, asked };
}
const upTo = (size: number) => Array.from({ length: size }, (_, nth) => nth);

describe("the lines of a run", () => {
  it("are shown as they come, and are all there in the end, each once", async () => {
    const show = vi.fn<(known: Known<number>) => void>();
    const all = await laterLines(undefined, log(2500).page, { show });
    expect(show.mock.calls.map(([known]) => [known.lines.length, known.isAll])).toEqual([[1000, false], [2000, false]]);
    expect(all).toEqual({ lines: upTo(2500), after: 2500, isAll: true });
  });
  it("are not asked for again when more of them come", async () => {
    const known = await laterLines(undefined, log(2500).page);
    const { page, asked } = log(2502);
    expect(await laterLines(known, page)).toEqual({ lines: upTo(2502), after: 2502, isAll: true });
    expect(asked).toEqual([2500]);
  });
  it("stay the same ones where nothing new has come", async () => {
    const known = await laterLines(undefined, log(7).page);
    expect((await laterLines(known, log(7).page)).lines).toBe(known.lines);
  });
});

describe("the first lines of a step", () => {
  it("are found behind those of other steps", async () => {
    const { page } = log(3500, (nth) => nth >= 3200 && nth < 3203);
    expect(await laterLines(undefined, page, { wanted: 100 })).toEqual({ lines: [3200, 3201, 3202], after: 3500, isAll: true });
  });
  it("are asked for until there are more than wanted, and never again", async () => {
    const { page, asked } = log(5000);
    const known = await laterLines(undefined, page, { wanted: 100 });
    expect([known.isAll, asked]).toEqual([false, [0]]);
    expect(await laterLines(known, page, { wanted: 100 })).toBe(known);
    expect(asked).toEqual([0]);
  });
  it("are all there where they are just as many as wanted", async () => {
    expect(await laterLines(undefined, log(100).page, { wanted: 100 })).toMatchObject({ isAll: true });
    expect((await laterLines(undefined, log(101).page, { wanted: 100 })).lines).toHaveLength(101);
  });
});

describe("the steps of lines", () => {
  const steps = ([["step", "charge"], ["step", "pack#2"], ["event", "go"], ["undo", "charge"], ["transaction", "book"]] as const).map(([op, name]) => ({ op, name }) as Step);
  it("are found by what a line calls them", () => {
    expect([...stepsOfLines(steps)]).toEqual([["charge", "step:charge"], ["pack#2", "step:pack#2"], ["undo:charge", "undo:charge"], ["book", "transaction:book"]]);
  });
  it("narrow a log by their names, each once, and by one that nobody knows yet", () => {
    expect(narrowings(["add", "add#2", "undo:add", "pack#2"], undefined)).toEqual(["add", "undo:add", "pack"]);
    expect(narrowings(["add"], "add#2")).toEqual(["add", "add#2"]);
  });
  it("stand in the file of a log", () => {
    const line = { at: "2026-01-01T00:00:00.000000Z", level: "info", message: "on" };
    expect(written([line, { ...line, step: "pack#2" }], (text) => text.toUpperCase())).toBe("2026-01-01T00:00:00.000000Z info ON\n2026-01-01T00:00:00.000000Z info [pack#2] ON\n");
  });
});
