import { describe, expect, it } from "vitest";
import type { Run } from "./state";
import { steady } from "./steady";

const runs = (...names: string[]) => names.map((name) => ({ id: name[0], status: name.slice(1) || "waiting" }) as Run);
const ids = (rows: Run[]) => rows.map((run) => run.id).join("");

describe("rows that are held", () => {
  it("stay where they are when others come, and say how many", () => {
    const { rows, newer } = steady(runs("c", "b", "a"), runs("e", "d", "c", "b", "a"));
    expect([ids(rows), newer]).toEqual(["cba", 2]);
  });
  it("stay when they fit no longer, the first as well", () => {
    expect(ids(steady(runs("c", "b", "a"), runs("b", "a")).rows)).toBe("cba");
    expect(ids(steady(runs("c", "b", "a"), runs("c", "a")).rows)).toBe("cba");
    const gone = steady(runs("c", "b", "a"), runs("d"));
    expect([ids(gone.rows), gone.newer]).toEqual(["cba", 1]);
  });
  it("get a next page while one of them still fits, and none when they are all gone", () => {
    expect(steady(runs("c", "b", "a"), runs("d", "c", "b")).goesOn).toBe(true);
    expect(steady(runs("c", "b", "a"), runs("f", "e", "d")).goesOn).toBe(false);
  });
  it("show what became of them, and what is below", () => {
    const { rows, newer } = steady(runs("c", "b"), runs("d", "c", "brunning", "a", "0"));
    expect([ids(rows), newer, rows[1]!.status]).toEqual(["cba0", 1, "running"]);
  });
});
