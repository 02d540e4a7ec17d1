import { describe, expect, it } from "vitest";
import { tooLate, pace, total, what, which } from "./bulk";

describe("a bulk", () => {
  it("says what it does", () => {
    expect([{ ask: { op: "resume" } }, { ask: { op: { cancel: { reason: "x" } } } }, { ask: null }].map(what)).toEqual(["resume", "cancel", "bulk"]);
  });
  it("says which runs it is for, and never that it is for all of them when it is not", () => {
    const of = (ask: object) => which({ ask });
    expect(of({ filter: {} })).toBe("all runs");
    expect(of({ filter: { definition: "order", statuses: ["failed", "cancelled"], tags: [["city", "Bern"]], oldest_first: false } })).toBe("def:order status:failed,cancelled tag:city=Bern");
    expect(of({ filter: { statuses: ["failed"], ended_since: "2026-01-05T10:00:00Z" } })).toBe("status:failed ended:2026-01-05T10:00:00Z");
    expect(of({ filter: { stuck_since: "2026-01-05T10:00:00Z" } })).toBe("stuck:2026-01-05T10:00:00Z");
    expect(of({ filter: {}, runs: ["run_1"] })).toBe("run_1");
    expect(of({ filter: {}, runs: ["run_1", "run_2"] })).toBe("2 chosen runs");
    expect(of({ filter: { definition: "pay" }, failure: "f7" })).toBe("def:pay failed like f7");
  });
});

it("is said of an abort that came too late, and of no other", () => {
  expect(tooLate({ status: "completed" })).toBe("Nothing was aborted: it had ended before that.");
  expect(tooLate({ status: "failed" })).toBe("Nothing was aborted: it had failed before that.");
  for (const status of ["running", "ready", "cancelled"]) expect(tooLate({ status }), status).toBeUndefined();
});

describe("how far a bulk is", () => {
  const bulk = { status: "running", created_at: "2026-01-05T10:00:00Z", percent: 25, message: "done 10 of ~40, 0 failed", done: 9, skipped: 1, failed: 0 };
  const after = (seconds: number) => Date.parse(bulk.created_at) + seconds * 1000;
  it("is told by how many there are, as far as they were counted", () => {
    expect(total(bulk)).toBe("~40");
    expect(total({ ...bulk, message: "done 10 of 10000 or more, 0 failed" })).toBe("10,000 or more");
    expect(total({ ...bulk, message: null })).toBeNull();
    expect(total({ ...bulk, status: "completed", message: null })).toBe("10");
  });
  it("is told by how fast it goes, once that says something", () => {
    expect(pace(bulk, after(2))).toBeNull();
    expect(pace(bulk, after(20))).toEqual({ rate: 30, left: 60_000 });
    expect(pace({ ...bulk, done: 0, skipped: 0 }, after(20))).toBeNull();
    expect(pace({ ...bulk, status: "completed", finished_at: "2026-01-05T10:00:20Z" }, after(500))).toEqual({ rate: 30, left: undefined });
  });
});
