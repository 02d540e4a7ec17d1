import { expect, it } from "vitest";
import type { Step } from "../lib/state";
import { bandsOf, closedOf, isAll, MOST_OPEN, openOf, withAll, withBand, withChild, withScope } from "./opened";

const id = (nth: number) => `run_01kf3q4v9h7m2c8x5t${String(nth).padStart(8, "0")}`;
const children = (...ids: string[]) => ids.map((child) => ({ op: "child", name: child, child }) as unknown as Step);
const none = () => undefined;

it("opens the children that an address names by the ends of their ids, and theirs once they have come", () => {
  const steps = children(id(1), id(2), id(3));
  expect(openOf(undefined, steps, none)).toEqual([]);
  expect(openOf("00000003.00000001.00000009", steps, none)).toEqual([id(1), id(3)]);
  expect(openOf("00000003.00000009", steps, (child) => (child === id(3) ? children(id(9), id(8)) : undefined))).toEqual([id(3), id(9)]);
  // Nobody sees what is below one that is closed.
  expect(openOf("00000009", steps, () => children(id(9)))).toEqual([]);
});

it("opens all of them, but not more than can be asked for", () => {
  const steps = children(...Array.from({ length: MOST_OPEN + 10 }, (_, nth) => id(nth)));
  expect(openOf(withAll(true), steps, () => children(id(999)))).toEqual(steps.slice(0, MOST_OPEN).map((step) => step.child));
  expect(openOf(withAll(true), children(id(1)), () => children(id(2), id(1)))).toEqual([id(1), id(2)]);
  expect([isAll(withAll(true)), isAll(withAll(false)), isAll("00000001")]).toEqual([true, false, false]);
});

it("writes an address that opens the same", () => {
  const steps = children(id(1), id(2), id(3));
  let open: string | undefined;
  const toggle = (child: string) => (open = withChild(open, openOf(open, steps, none), child));
  for (const child of [id(2), id(3), id(2), id(1)]) toggle(child);
  expect(openOf(open, steps, none)).toEqual([id(1), id(3)]);
  for (const child of [id(1), id(3)]) toggle(child);
  expect(open).toBeUndefined();
  // What has not come yet is not forgotten.
  expect(withChild("00000009", [], id(1))).toBe("00000009.00000001");
  // One that is closed of all leaves the others.
  expect(withChild("all", openOf("all", steps, none), id(2))).toBe("00000001.00000003");
});

it("keeps idle stretches by when they began, from the start of the run", () => {
  const from = 1_700_000_000_000;
  let bands = withBand(undefined, from, from + 1200);
  bands = withBand(bands, from, from);
  expect(bands).toBe("1200.0");
  expect(bandsOf(bands, from)).toEqual(new Set([from + 1200, from]));
  expect(bandsOf("x.-3.7", from)).toEqual(new Set([from + 7]));
  expect(withBand(withBand(bands, from, from), from, from + 1200)).toBeUndefined();
});

it("closes a scope and opens it again, one or several", () => {
  expect([...closedOf(undefined)]).toEqual([]);
  expect(withScope(undefined, "left/")).toEqual(["left/"]);
  expect(withScope("left/", "a b/")).toEqual(["left/", "a b/"]);
  expect(withScope(["left/", "a b/"], "left/")).toEqual(["a b/"]);
  expect(withScope("a b/", "a b/")).toBeUndefined();
  expect([...closedOf("left/")]).toEqual(["left/"]);
});
