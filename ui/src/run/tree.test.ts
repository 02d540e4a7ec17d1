import { describe, expect, it } from "vitest";
import type { Step } from "../lib/state";
import { type Line, rowsOf } from "./tree";

const step = (name: string, child: string | null = null) => ({ op: child ? "child" : "step", name, child, attempts: [] }) as unknown as Step;
/// Each row as somebody sees it.
const seen = (rows: Line[]) => rows.map((row) => "  ".repeat(row.depth) + ("note" in row ? `(${row.note})` : "group" in row ? `[${row.name}]` : row.name));

describe("the rows of a timeline", () => {
  it("are operations in their order, those of one scope below it", () => {
    const steps = ["reserve", "left/charge", "right/charge", "left/ship", "right/ship", "done"].map((name) => step(name));
    expect(seen(rowsOf(steps))).toEqual(["reserve", "[left]", "  charge", "  ship", "[right]", "  charge", "  ship", "done"]);
    expect(seen(rowsOf(steps, new Map(), new Set(["left/"])))).toEqual(["reserve", "[left]", "[right]", "  charge", "  ship", "done"]);
  });
  it("stand where they began, and not where they ended; those of a scope where the first of it did", () => {
    const at = (second: number, name: string, child: string | null = null) => ({ ...step(name, child), began_at: new Date(1.7e12 + 1000 * second).toISOString() });
    // As a journal has them: by their ends.
    const steps = [at(2, "short"), at(2, "as short"), at(5, "right/b"), at(3, "left/b"), at(1, "long"), at(4, "right/a"), at(0, "left/a"), at(6, "ship", "run_1")];
    expect(seen(rowsOf(steps))).toEqual(["[left]", "  a", "  b", "long", "short", "as short", "[right]", "  a", "  b", "ship"]);
    expect(seen(rowsOf(steps.slice(-1), new Map([["run_1", [at(9, "late"), at(8, "early")]]])))).toEqual(["ship", "  early", "  late"]);
    // Places in the API are those of the list that was given.
    expect(steps.map((one) => one.name)[0]).toBe("short");
  });
  it("nest as scopes do, and leave alone what has a scope for itself or only looks like one", () => {
    expect(seen(rowsOf(["a/b/x", "a/b/y", "a/z", "lone/x", "/x", "/y", "x/"].map((name) => step(name))))).toEqual(["[a]", "  [b]", "    x", "    y", "  z", "lone/x", "/x", "/y", "x/"]);
  });
  it("have the steps of a child below it once it was opened, and say where there are none", () => {
    const steps = [step("ship", "run_1"), step("bill", "run_2"), step("mail", "run_3"), step("done", "run_4")];
    const children = new Map([["run_1", [step("pack"), step("label", "run_5")]], ["run_2", []], ["run_3", undefined], ["run_5", [step("print")]]]);
    const rows = rowsOf(steps, children);
    expect(seen(rows)).toEqual(["ship", "  pack", "  label", "    print", "bill", "  (no steps)", "mail", "  (…)", "done"]);
    expect(rows.map((row) => row.run)).toEqual([undefined, "run_1", "run_1", "run_5", undefined, "run_2", undefined, "run_3", undefined]);
  });
});
