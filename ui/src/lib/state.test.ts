import { describe, expect, it } from "vitest";
import { type Run, type Step, stateOf, stepState, wrongOf } from "./state";

const now = Date.parse("2026-11-17T12:00:00Z");
const due = (ms: number) => new Date(now + ms).toISOString();

describe("the state that is shown", () => {
  it("is scheduled only of a run that is due later than clocks can be off", () => {
    const ready = (ms: number, attempt = 1) => stateOf({ status: "ready", due_at: due(ms), attempt }, now);
    expect([ready(-5000), ready(0), ready(2000), ready(60_000)]).toEqual(["queued", "queued", "queued", "scheduled"]);
    expect(stateOf({ status: "ready", due_at: null, attempt: 1 }, now)).toBe("queued");
  });
  it("is never scheduled of a run that is in hand or waits, whenever it is due", () => {
    for (const status of ["running", "waiting", "undoing", "paused", "blocked", "completed"]) expect(stateOf({ status, due_at: due(3_600_000), attempt: 1 }, now)).toBe(status);
    expect(stateOf({ status: "ready", due_at: due(3_600_000), attempt: 1, node: "node_1" }, now)).toBe("queued");
  });
  it("is retrying of one that comes again, however soon, and in line again once it is due", () => {
    const again = (ms: number) => stateOf({ status: "ready", due_at: due(ms), attempt: 2 }, now);
    expect([again(60_000), again(2000), again(1), again(0), again(-5000)]).toEqual(["retrying", "retrying", "retrying", "queued", "queued"]);
    expect(stateOf({ status: "ready", due_at: due(9000), attempt: 1 }, now, "after_crash")).toBe("retrying");
  });
  it("is retrying of one that waits for the next attempt of a step, as the list or its explanation says", () => {
    const waits = { status: "waiting", due_at: due(9000), attempt: 1 };
    expect(stateOf({ ...waits, waiting_for: { on: "retry", name: "pay", since: due(0) } }, now)).toBe("retrying");
    expect(stateOf({ ...waits, waiting_for: { on: "event", name: "pay", since: due(0) } }, now)).toBe("waiting");
    expect(stateOf(waits, now, "retry")).toBe("retrying");
    expect(stateOf({ ...waits, status: "paused" }, now, "retry")).toBe("paused");
  });
});

describe("the state of a step", () => {
  const failed = (next: number) => ({ op: "step", state: "retrying", attempts: [{ next_at: due(next) }] }) as unknown as Step;
  it("is running again once its next attempt is on", () => {
    expect(stepState(failed(1000), { status: "waiting" }, now)).toBe("retrying");
    expect(stepState(failed(-10), { status: "running" }, now)).toBe("running");
    expect(stepState(failed(-10), { status: "waiting" }, now)).toBe("retrying");
  });
  it("is that of its run, of a job", () => {
    const job = { op: "job", state: "dropped", attempts: [] } as unknown as Step;
    expect(stepState(job, { status: "completed" }, now)).toBe("completed");
    expect(stepState({ ...job, op: "event" }, { status: "completed" }, now)).toBe("dropped");
    expect(stepState({ ...job, state: "?" }, { status: "running" }, now)).toBe("running");
  });
});

it("knows what went wrong of a run that failed, and of one whose undo gave up", () => {
  const run = { status: "failed", error: { message: "declined", detail: {} }, reason: null } as unknown as Run;
  expect(wrongOf(run)).toBe("declined");
  expect(wrongOf({ ...run, status: "undo_failed", reason: "the undo of flight failed" })).toBe("the undo of flight failed");
  expect(wrongOf({ ...run, status: "undo_failed", error: null, reason: null })).toBeUndefined();
  expect(wrongOf({ ...run, status: "paused", error: null, reason: "stocktaking" })).toBeUndefined();
});
