import { describe, expect, it } from "vitest";
import type { Run } from "./state";
import { renewed, steady } from "./steady";

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

describe("pages that are asked for again", () => {
  const put = (pages: Run[][], now: [number, Run[]][]) => renewed(pages, new Map(now.map(([nth, items]) => [nth, { items }])));
  const again = (pages: Run[][], ...now: [number, Run[]][]) => steady(pages.flat(), put(pages, now));
  const two = [runs("d", "c"), runs("b", "a")];
  it("take their places, with what became of their runs", () => {
    const rows = put(two, [[0, runs("e", "d")], [1, runs("brunning", "a")]]);
    expect([ids(rows), rows[2]!.status]).toEqual(["edba", "running"]);
  });
  it("move no row, and say how many are new", () => {
    const { rows, newer, goesOn } = again(two, [0, runs("f", "e")], [1, runs("b", "afailed")]);
    expect([ids(rows), newer, goesOn, rows[3]!.status]).toEqual(["dcba", 2, true, "failed"]);
    expect(again([runs("b", "a")], [0, runs("z", "y")])).toMatchObject({ newer: 2, goesOn: true });
  });
  it("leave what fits no longer where it is, and have nothing twice", () => {
    expect(ids(put(two, [[0, runs("d", "b")]]))).toBe("dba");
    expect(again(two, [0, runs("d", "b")])).toMatchObject({ newer: 0, rows: two.flat() });
    expect(again(two, [1, []])).toMatchObject({ newer: 0, goesOn: true, rows: two.flat() });
  });
  it("bring what has come behind the last row, as lists do that begin with the oldest", () => {
    expect(ids(again([runs("a", "b"), runs("c")], [0, runs("a", "b")], [1, runs("c", "d", "e")]).rows)).toBe("abcde");
    expect(ids(again([runs("a", "b")], [0, runs("a", "c", "d")]).rows)).toBe("abcd");
  });
});
