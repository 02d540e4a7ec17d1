import { describe, expect, it } from "vitest";
import type { Step } from "../lib/state";
import { isOneLife, mayBeAnew, retriedAt } from "./lives";

const at = (second: number) => new Date(Date.UTC(2026, 10, 17, 10, 0, second)).toISOString();
const step = (op: string, second: number) => ({ op, name: op, state: "completed", began_at: at(second), ended_at: at(second + 1), attempts: [] }) as unknown as Step;
const act = (action: string, second: number, status = 200) => ({ at: at(second), actor: "ann", action, reason: null, status });
const wanted = { wanted_at: at(600) };

describe("a run that is wanted from some time on", () => {
  it("was tried again where it had done something before that, or where somebody asked for it then", () => {
    expect(retriedAt(wanted, [step("job", 3)], [])).toBe(Date.parse(at(600)));
    expect(retriedAt(wanted, [], [act("run.retry", 601)])).toBe(Date.parse(at(600)));
  });
  it("was to begin later where nothing tells of that", () => {
    expect(retriedAt({ wanted_at: null }, [step("job", 3)], [act("run.retry", 601)])).toBeNull();
    expect(retriedAt(wanted, [step("step", 600)], [act("run.start", 0), act("run.retry", 601, 409), act("run.retry", 900)])).toBeNull();
  });
});

describe("a run that continued as new", () => {
  const run = { created_at: at(0), status: "waiting" };
  const now = Date.parse(at(900));
  it("may be one whose journal begins late, or has nothing in it yet", () => {
    expect(mayBeAnew(run, [step("step", 500)], now)).toBe(true);
    expect(mayBeAnew(run, [], now)).toBe(true);
  });
  it("is none whose journal begins with it, nor one that has not begun or needs no journal", () => {
    expect(mayBeAnew(run, [step("step", 0), step("step", 500)], now)).toBe(false);
    for (const status of ["ready", "completed"]) expect(mayBeAnew({ ...run, status }, [], now)).toBe(false);
    expect(mayBeAnew(run, [], Date.parse(at(0)))).toBe(false);
  });
});

it("tells the life of a job from what workflows record", () => {
  expect([isOneLife([]), isOneLife([step("job", 0)]), isOneLife([step("revise", 0), step("step", 1)])]).toEqual([true, true, false]);
});
