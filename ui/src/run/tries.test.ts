import { describe, expect, it } from "vitest";
import type { Step } from "../lib/state";
import { triesOf } from "./tries";

const at = (second: number) => `2026-11-17T10:00:0${second}Z`;
const failed = (number: number, from: number) => ({ number, began_at: at(from), failed_at: at(from + 1), next_at: at(from + 3), error: { message: `no ${number}`, detail: {} } });
const step = (state: string, more: object = {}) => ({ op: "step", name: "charge", state, began_at: at(0), ended_at: null, attempts: [failed(1, 0), failed(2, 3)], ...more }) as unknown as Step;
const run = { status: "running", node: "node_1", error: null };
const now = Date.parse(at(9));

describe("the attempts of a step", () => {
  it("are those that failed, and the one that did not", () => {
    expect(triesOf(run, step("completed", { ended_at: at(7) }), now)).toMatchObject([
      { number: 1, began: at(0), ended: at(1), next: at(3), error: "no 1" }, { number: 2, began: at(3), error: "no 2" },
      { number: 3, began: at(6), ended: at(7), state: "completed" },
    ]);
  });
  it("have the last one among them when all failed", () => {
    expect(triesOf(run, step("failed", { ended_at: at(7), error: { message: "gave up", detail: {} } }), now).at(-1)).toMatchObject({ number: 3, state: "failed", error: "gave up" });
    expect(triesOf(run, step("completed", { attempts: [], ended_at: at(1) }), now)).toMatchObject([{ number: 1, began: at(0), ended: at(1), state: "completed" }]);
  });
  it("name a node only while it has the run in hand, and none that has not begun", () => {
    expect(triesOf(run, step("running"), now).map((one) => one.node)).toEqual([undefined, undefined, "node_1"]);
    expect(triesOf({ ...run, status: "completed" }, step("completed", { ended_at: at(7) }), now).some((one) => one.node)).toBe(false);
    expect(triesOf({ ...run, status: "waiting", node: null }, step("retrying"), now)).toHaveLength(2);
    expect(triesOf(run, step("retrying"), now).at(-1)).toMatchObject({ number: 3, state: "running", node: "node_1" });
  });
  it("name the node that made them, where that was recorded", () => {
    const attempts = [{ ...failed(1, 0), node: "node_0" }, { ...failed(2, 3), node: null }];
    expect(triesOf(run, step("running", { attempts }), now).map((one) => one.node)).toEqual(["node_0", undefined, "node_1"]);
  });
  it("are those of its run, of a job that has ended", () => {
    const job = step("dropped", { op: "job", ended_at: at(7) });
    expect(triesOf({ ...run, status: "completed" }, job, now).at(-1)).toMatchObject({ number: 3, state: "completed", error: undefined });
    expect(triesOf({ ...run, status: "failed", error: { message: "gave up", detail: {} } }, job, now).at(-1)).toMatchObject({ state: "failed", error: "gave up" });
  });
});
