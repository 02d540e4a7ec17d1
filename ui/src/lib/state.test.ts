import { describe, expect, it } from "vitest";
import { stateOf } from "./state";

const now = Date.parse("2026-11-17T12:00:00Z");
const due = (ms: number) => new Date(now + ms).toISOString();

describe("the state that is shown", () => {
  it("is scheduled only of a run that is due later than clocks can be off", () => {
    const ready = (ms: number, attempt = 1) => stateOf({ status: "ready", due_at: due(ms), attempt }, now);
    expect([ready(-5000), ready(0), ready(2000), ready(60_000)]).toEqual(["queued", "queued", "queued", "scheduled"]);
    expect(ready(60_000, 3)).toBe("retrying");
    expect(stateOf({ status: "ready", due_at: null, attempt: 1 }, now)).toBe("queued");
  });
  it("is never scheduled of a run that is in hand or waits, whenever it is due", () => {
    for (const status of ["running", "waiting", "undoing", "paused", "blocked", "completed"]) expect(stateOf({ status, due_at: due(3_600_000), attempt: 1 }, now)).toBe(status);
    expect(stateOf({ status: "ready", due_at: due(3_600_000), attempt: 1, node: "node_1" }, now)).toBe("queued");
  });
});
