import { expect, it } from "vitest";
import { isWindowed, read } from "./filter";
import { shortcuts } from "./shortcuts";

it("has everybody's own runs only once it is known who looks, whatever they are called", () => {
  expect(shortcuts().some(([name]) => name === "Mine")).toBe(false);
  for (const actor of ["ann", "night shift", 'a "b" \\c']) {
    const mine = shortcuts(actor).find(([name]) => name === "Mine")!;
    expect(read(mine[1])).toEqual([{ field: "owner", value: actor }]);
  }
});

it("shows what is stuck however long it has been so", () => {
  const stuck = shortcuts().find(([name]) => name === "Stuck")!;
  expect(read(stuck[1])).toEqual([{ field: "stuck", value: "5m" }]);
  expect(isWindowed(read(stuck[1]))).toBe(false);
});

it("shows what failed in the last day by when it failed, as the number on the first page counts it", () => {
  const failed = shortcuts().find(([name]) => name === "Failed 24 h")!;
  expect(read(failed[1])).toEqual([{ field: "status", value: "failed" }, { field: "ended", value: "24h" }]);
  expect(isWindowed(read(failed[1]))).toBe(false);
});

it("has the groups of states that people look for", () => {
  const of = (wanted: string) => read(shortcuts().find(([name]) => name === wanted)![1]).map((term) => term.value);
  expect(["Active", "Waiting", "Done", "Failed"].map(of)).toEqual([["ready", "running", "undoing"], ["waiting", "paused"], ["completed", "cancelled"], ["failed"]]);
});
