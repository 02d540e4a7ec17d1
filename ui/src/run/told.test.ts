import { describe, expect, it } from "vitest";
import { beginsUndo, linesOf, noteOf, OPERATOR, told } from "./told";

const entry = (pos: number, second: number) => ({ pos, at: `2027-01-01T00:00:0${second}Z`, op: "step", phase: "done", name: `s${pos}`, body: null });
const action = (name: string, second: number, status = 200) => ({ at: `2027-01-01T00:00:0${second}Z`, actor: "ann", action: `run.${name}`, reason: "why not", status });

describe("the history", () => {
  it("has what people did where it happened", () => {
    const lines = told([entry(1, 1), entry(2, 4)], [action("cancel", 5, 403), action("pause", 2)], false);
    expect(lines.map((line) => line.name)).toEqual(["s1", "pause", "s2", "cancel"]);
    expect(lines[1]).toMatchObject({ kind: "operator", words: "ann: why not", phase: "done" });
    expect(lines[3]).toMatchObject({ phase: "refused" });
  });
  it("keeps the order of entries, and leaves for later what comes behind entries that are not here yet", () => {
    const lines = told([entry(1, 5), entry(2, 4)], [action("pause", 6)], true);
    expect(lines.map((line) => line.name)).toEqual(["s1", "s2"]);
  });
  it("has all that people did where somebody asks for that alone, however many entries are still to come", () => {
    const [entries, actions] = [[entry(1, 1)], [action("cancel", 9, 403), action("pause", 6), action("start", 0)]];
    expect(linesOf(entries, actions, true).map((line) => line.name)).toEqual(["start", "s1"]);
    expect(linesOf(entries, actions, true, OPERATOR).map((line) => line.name)).toEqual(["start", "pause", "cancel"]);
    expect(linesOf(entries, actions, true, "step").map((line) => line.name)).toEqual(["s1"]);
    expect(linesOf(entries, actions, true, "event")).toEqual([]);
  });
});

describe("what the engine noted with an entry", () => {
  const say = (time: number) => `at ${time}`;
  const said = (kind: string, phase: string, body: unknown) => noteOf({ kind, phase, name: "one", body }, say);
  it("is said in words, with times that people read", () => {
    expect(said("sleep", "opened", { until: 1794960862348437 })).toEqual({ text: "until at 1794960862348.437", run: undefined });
    expect(said("event", "opened", { event: "approval", until: 2000 })?.text).toBe("for event approval, until at 2");
    expect(said("child", "opened", { run: "run_1", detached: true })).toEqual({ text: "started, and not waited for", run: "run_1" });
    expect(said("step", "attempt", { attempt: 2, failure: { own: { message: "declined", value: {} } }, next_at: 5000 })?.text).toBe("attempt 2 failed: declined; the next comes at 5");
    expect(said("undo", "attempt", { attempt: 3, failure: { outlast: { timed_out: { what: "undo a", after_ms: 5 } } }, next_at: 5000, gave_up: true })?.text).toBe("attempt 3 failed: undo a timed out; it was the last");
    expect(said("step", "failed", { own: { message: "declined", value: {} } })?.text).toBe("declined");
    expect(said("revise", "done", { by: "ann", reason: "why not" })?.text).toBe("tried again by ann: why not");
    expect(said("revise", "done", { result: { of: { op: "undo", name: "flight" }, body: null } })?.text).toBe("the result of undo flight was replaced");
    expect(said("revise", "void", { fork_of: "run_2" })).toEqual({ text: "forked from another run", run: "run_2" });
  });
  it("tells that a run begins to undo from what it could undo", () => {
    const opened = (name: string) => noteOf({ kind: "undo", phase: "opened", name, body: null }, say)?.text;
    expect([opened("*"), opened("hotel")]).toEqual(["from here on the run undoes what it did, the last first", "can be undone from here on"]);
    expect([beginsUndo({ kind: "undo", name: "*" }), beginsUndo({ kind: "step", name: "*" }), beginsUndo({ kind: "undo", name: "hotel" })]).toEqual([true, false, false]);
  });
  it("is nothing of what the code of a run recorded", () => {
    for (const body of [{ until: 5 }, "shelf 7", null, undefined, [1]]) expect(said("step", "done", body)).toBeNull();
    expect(said("event", "opened", {})).toBeNull();
  });
});
