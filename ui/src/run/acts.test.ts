import { readFileSync } from "node:fs";
import { createElement, Fragment } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it, vi } from "vitest";
import { STATUSES } from "../lib/filter";
import { recordedName, type Run, type Step, stepKey, stepOf } from "../lib/state";
import { type Action, actionsOf, arrival, choicesOf, dueOf, forkable, forkBody, type ForkVersion, meaning, MEANS, outlook, pauseOf, START, startsOf, stopping, usualFrom, versionsOf, WORDS, wordOf, WRONG } from "./acts";
import { command, crowd, type Explained, reason, remedy, type Wait } from "./remedy";

vi.mock("@tanstack/react-router", () => ({ Link: ({ children }: { children: unknown }) => children }));

const step = (op: string, name: string) => ({ op, name }) as Step;
const run = (status: string, hasError = false) => ({ status, error: hasError ? { message: "no" } : null }) as unknown as Run;

/// What is offered in each state, the likeliest first.
const OFFERED: Record<string, Action[]> = {
  ready: ["cancel", "pause"],
  running: ["cancel", "pause", "event", "settle"],
  waiting: ["cancel", "pause", "event", "settle", "fork"],
  paused: ["resume", "upgrade", "cancel", "event", "settle", "fork"],
  blocked: ["explain", "upgrade", "fork", "retry", "cancel", "kill"],
  undoing: ["explain", "pause", "kill"],
  undo_failed: ["retry", "skip", "kill"],
  completed: ["rerun", "fork", "delete"],
  failed: ["retry", "fork", "rerun", "delete"],
  cancelled: ["rerun", "retry", "fork", "delete"],
};

describe("what can be done to a run", () => {
  it.each(STATUSES)("that is %s", (status) => {
    expect(actionsOf(status, [])).toEqual(OFFERED[status]);
    for (const action of actionsOf(status, [])) expect(WORDS[action]).toBeTruthy();
  });
  it("begins with what it waits for", () => {
    expect(actionsOf("waiting", ["timer", "event"])[0]).toBe("event");
    expect(actionsOf("waiting", ["promise"])).toEqual(["settle", "cancel", "pause", "event", "fork"]);
  });
  it("is to kill it once it was asked to stop, and never before where it would hear that", () => {
    for (const status of ["ready", "running", "waiting", "paused"]) {
      expect(actionsOf(status, [])).not.toContain("kill");
      expect(actionsOf(status, [], { isAsked: true }).at(-1), status).toBe("kill");
    }
    for (const status of ["blocked", "undoing", "undo_failed"]) expect(actionsOf(status, []), status).toContain("kill");
  });
  it("is not to fork it where no node serves its queue", () => {
    expect(actionsOf("blocked", [], { isUnserved: true })).toEqual(["explain", "retry", "cancel", "kill"]);
  });
  it("says that an undo is tried again, where that is all that is", () => {
    expect(wordOf(actionsOf("undo_failed", [])[0]!, "undo_failed")).toBe("Retry undo");
    expect(wordOf("retry", "failed")).toBe("Retry");
  });
  it("begins with its time, where it goes on by itself later", () => {
    expect(actionsOf("ready", [], { due: dueOf({ kind: "later" }) })).toEqual(["now", "time", "cancel", "pause"]);
    expect(actionsOf("ready", [], { due: dueOf({ kind: "retry" }) })[0]).toBe("again");
  });
  it("is to delete it as long as nothing of it was done, and says what that means", () => {
    expect(actionsOf("ready", [], { due: dueOf({ kind: "later" }), isNew: true })).toEqual(["now", "time", "cancel", "pause", "delete"]);
    for (const status of STATUSES.filter((one) => one !== "ready")) expect(actionsOf(status, [], { isNew: true }), status).toEqual(OFFERED[status]);
    expect(meaning("delete", "ready")).toMatch(/has not begun.*gone for good/);
    expect(meaning("delete", "completed")).toBe(MEANS.delete);
    expect(actionsOf("waiting", [], { due: dueOf({ kind: "sleeping" }) })[0]).toBe("timer");
    expect(actionsOf("waiting", ["event", "sleep"], { due: ["timer"] }).slice(0, 2)).toEqual(["event", "timer"]);
  });
  it("offers another time only where the journal has none, and ends no wait for something else", () => {
    const waits = [{ on: "event", until: "a" }, { on: "sleep", until: "b" }];
    expect(dueOf({ kind: "retry", step: "charge" })).toEqual(["again"]);
    expect(dueOf({ kind: "waiting", until: "b", waits })).toEqual(["timer"]);
    expect(dueOf({ kind: "waiting", until: "a", waits })).toEqual([]);
    expect(dueOf({ kind: "waiting", waits: [{ on: "event" }] })).toEqual([]);
    for (const kind of ["due", "held", "paused", "undoing"]) expect(dueOf({ kind })).toEqual([]);
    expect(dueOf(undefined)).toEqual([]);
  });
  it("says what it means, where only a reason is asked for", () => {
    for (const action of ["now", "again", "timer", "time", "cancel", "kill", "pause", "resume", "delete"] as const) expect(MEANS[action]).toBeTruthy();
  });
});

/// Every reason that the server gives, from where it has them: the API says no more of them than that they are objects.
const KINDS = [...readFileSync(new URL("../../../crates/core/src/why/mod.rs", import.meta.url), "utf8").matchAll(/Why::\w+ \{ \.\. \} => "(\w+)"/g)].map(([, kind]) => kind!);

describe("what helps", () => {
  const told = (explained: Partial<Explained>) => renderToStaticMarkup(createElement(Fragment, null, remedy({ kind: "", text: "", now: "", ...explained }, { id: "run_1" })));
  it("is known of every reason", () => {
    expect(KINDS).toEqual(expect.arrayContaining(["held", "waiting", "sleeping", "due"]));
    expect(KINDS.length).toBeGreaterThanOrEqual(24);
  });
  it.each(KINDS)("a run that is not running because of %s", (kind) => {
    expect(told({ kind })).toMatch(/^\S.*[.)]$/);
    expect(told({ kind, queue: "mail", by: ["run_2"], head: "run_3", code: "a@1" })).not.toBe("");
  });
  it("where runs stand in line: the limit of their own queue", () => {
    for (const kind of ["queue_full", "group_full", "nodes_full", "rate_spent"]) expect(told({ kind, queue: "mail" }), kind).toContain("“Limits”");
    for (const kind of ["queue_paused", "queue_draining", "queue_full", "group_full", "nodes_full", "rate_spent"]) expect(told({ kind, queue: "mail" }), kind).toMatch(/queue mail/);
    expect(told({ kind: "queue_full", queue: "mail", by: ["run_2_12345678"] })).toMatch(/Before it: …12345678 $/);
  });
  it("one that goes on at a time: the button that ends that time", () => {
    expect(told({ kind: "sleeping" })).toContain(WORDS.timer);
    for (const kind of ["later", "after_crash"]) expect(told({ kind }), kind).toContain(WORDS.now);
    const at = (on: string) => told({ kind: "waiting", until: "b", waits: [{ on, until: "b" }] });
    expect([at("sleep"), at("retry"), at("stop")]).toEqual([expect.stringContaining(WORDS.timer), expect.stringContaining(WORDS.again), expect.stringContaining(WORDS.cancel)]);
  });
  it("one whose queue no node serves: a node that does, and no other code", () => {
    const told = (explained: object) => renderToStaticMarkup(createElement(Fragment, null, remedy({ kind: "blocked", text: "", now: "", ...explained }, { id: "run_1" })));
    expect(told({ unserved: "mail" })).toMatch(/^Start your program with.*s\.queues = vec!\[.*mail.*\].*queue mail/);
    expect(told({ unserved: "mail" })).not.toMatch(/Deploy|fork/);
    expect(told({})).toMatch(/Deploy.*history/);
  });
  it("is said once, after a reason that is a sentence", () => {
    expect(reason("blocked: no node that knows a@1 serves queue b; it goes on when a node joins that knows its code, or cancel it")).toBe("Blocked: no node that knows a@1 serves queue b.");
    expect(reason("due since 10:00:00, and no node is up: start one")).toBe("Due since 10:00:00, and no node is up.");
    expect(reason("no node that is up knows a@1: start one that registers this name and version")).toBe("No node that is up knows a@1.");
    expect(reason("queue b is paused since 10:00:00: `outlast queue resume b`")).toBe("Queue b is paused since 10:00:00.");
    expect(reason("waiting for event a (since 10:00:00)")).toBe("Waiting for event a (since 10:00:00)");
    expect(reason("step pay failed: attempt 2 comes at 10:00:00")).toBe("Step pay failed: attempt 2 comes at 10:00:00.");
    expect(reason("")).toBe("");
  });
  it("one that waits: the event, or its children", () => {
    const told = (wait: Wait) => renderToStaticMarkup(createElement(Fragment, null, remedy({ kind: "waiting", text: "", now: "", waits: [wait] }, { id: "run_1" })));
    expect(told({ on: "event", name: "approval" })).toBe("Send the event, if it will not come by itself: <code>outlast send run_1 approval --data JSON</code>.");
    expect(told({ on: "promise", name: "visa" })).toBe("Settle the promise, if nobody else does: <code>outlast settle run_1 visa --data JSON</code>.");
    expect(command("promise", "Ann's visa", "run_1")).toBe("outlast settle run_1 'Ann'\\''s visa' --data JSON");
    expect(remedy({ kind: "waiting", text: "", now: "", waits: [{ on: "child", run: "run_2" }] }, { id: "run_1" })).not.toBeNull();
    const many = Array.from({ length: 14 }, (_, nth) => ({ on: "child", run: `run_${nth}_12345678` }));
    expect(crowd({ waits: many })).toBe("Waiting for the end of 14 runs.");
    expect(renderToStaticMarkup(createElement(Fragment, null, remedy({ kind: "waiting", text: "", now: "", waits: many }, { id: "run_1" })))).toMatch(/^See (…12345678 ){5}and 9 more$/);
    expect([crowd({ waits: many.slice(0, 3) }), crowd({ waits: [...many, { on: "event" }] }), crowd({})]).toEqual([null, null, null]);
    expect(remedy({ kind: "behind_in_order", text: "", now: "", head: "run_2" }, { id: "run_1" })).not.toBeNull();
  });
});

describe("a fork", () => {
  const steps = [step("step", "charge"), step("event", "approval"), step("undo", "charge")];
  it("goes on where the run went wrong, or from the last thing that can be done again", () => {
    expect(usualFrom(run("failed", true), steps)).toBe(WRONG);
    for (const status of ["waiting", "paused", "blocked", "cancelled"]) expect(usualFrom(run(status), steps), status).toBe("event:approval");
    expect(usualFrom(run("completed"), steps)).toBe(START);
    expect(usualFrom(run("blocked"), [])).toBe(START);
    expect(usualFrom(run("paused"), steps.slice(0, 1))).toBe("charge");
    expect(forkable(steps)).toHaveLength(2);
  });
  it("offers both ends of a long run, and the step that is chosen", () => {
    const many = Array.from({ length: 2000 }, (_, nth) => step("step", String(nth)));
    const offered = (chosen: string) => startsOf(many, chosen).map(recordedName);
    expect(offered(START)).toHaveLength(500);
    expect(offered(usualFrom(run("paused"), many)).at(-1)).toBe("1999");
    expect(offered("1000")).toHaveLength(501);
    expect(offered("1000")).toContain("1000");
    expect(startsOf(steps, START)).toEqual(forkable(steps));
  });
  it("takes another input from any step", () => {
    expect(forkBody("charge", "same", { a: 1 }, "", false)).toMatchObject({ from: "charge", from_start: false, input: { a: 1 }, reason: undefined });
    expect(forkBody(START, "latest", undefined, "why", true)).toMatchObject({ from: undefined, from_start: true, latest: true, dry_run: true, reason: "why" });
    expect(forkBody(WRONG, "same", undefined, "", false)).toMatchObject({ from: undefined, from_start: false });
  });
});

describe("the version of a fork", () => {
  it("is that of its run unless another is named", () => {
    expect(forkBody("charge", "same", undefined, "", false)).toMatchObject({ latest: false, version: undefined });
    expect(forkBody("charge", "latest", undefined, "", false)).toMatchObject({ latest: true, version: undefined });
    expect(forkBody("charge", 2, undefined, "", false)).toMatchObject({ latest: false, version: 2 });
  });
  it("can be any that a node knows, the newest first", () => {
    const cards = [{ version: 1 }, { version: 2 }, { version: 3 }];
    const nodes = [{ codes: ["order@1", "order@3", "mail@2"] }, { codes: ["order@3"] }];
    expect(versionsOf("order", cards, nodes)).toEqual([{ version: 3, nodes: 2 }, { version: 1, nodes: 1 }]);
    expect(versionsOf("order", cards, undefined).map((one) => one.version)).toEqual([3, 2, 1]);
    expect(versionsOf("order", cards, [])).toEqual([]);
  });
});

describe("the versions that a fork is offered", () => {
  const told = (own: number, newest: number | undefined, versions: number[], chosen: ForkVersion = "same") => choicesOf(own, newest, versions.map((version) => ({ version, nodes: 1 })), chosen);
  it("are one where there is one", () => {
    expect(told(1, 1, [1])).toEqual([{ value: "same", says: "that of this run and of new runs (1)" }]);
    expect(told(1, undefined, []).map((one) => one.value)).toEqual(["same", "latest"]);
  });
  it("are each there once, with what somebody has chosen", () => {
    expect(told(2, 3, [3, 2, 1])).toEqual([{ value: "same", says: "that of this run (2)" }, { value: "latest", says: "that of new runs (3)" }, { value: 1, says: "1, which 1 node knows" }]);
    expect(told(3, 3, [3, 2]).map((one) => one.value)).toEqual(["same", 2]);
    // Another node came up meanwhile, and new runs have what somebody has chosen.
    expect(told(1, 2, [2, 1], 2).map((one) => one.value)).toEqual(["same", "latest", 2]);
  });
});

describe("a cancel", () => {
  it("reverts what is done, the last first, and stops the children that go on", () => {
    const over = { state: "completed", ended_at: "2026-01-01T00:00:00Z" };
    const steps = [{ ...step("step", "hotel"), ...over }, { ...step("step", "flight"), ...over }, { ...step("event", "ok"), ...over }, { ...step("step", "pay"), state: "failed" }, { ...step("child", "a"), child: "run_a", ended_at: null }, { ...step("child", "b"), ...over, child: "run_b" }];
    expect(stopping(steps as never)).toEqual({ steps: ["flight", "hotel"], children: ["run_a"] });
    expect(stopping([])).toEqual({ steps: [], children: [] });
  });
  it("does not revert again what is undone", () => {
    const over = { state: "completed", ended_at: "2026-01-01T00:00:00Z" };
    const steps = [{ ...step("step", "hotel"), ...over }, { ...step("step", "flight"), ...over }, { ...step("undo", "flight"), ...over }, { ...step("undo", "hotel"), state: "running" }];
    expect(stopping(steps as never).steps).toEqual(["hotel"]);
  });
});

describe("before it is done it is said", () => {
  const over = { state: "completed", ended_at: "2026-01-01T00:00:00Z" };
  const steps = [
    { ...step("step", "hotel"), ...over }, { ...step("step", "flight"), ...over }, { ...step("step", "pay"), state: "running", ended_at: null },
    { ...step("event", "ok"), state: "waiting", ended_at: null }, { ...step("sleep", "sleep"), ...over }, { ...step("child", "a"), child: "run_a", state: "running", ended_at: null },
  ] as never[];
  const said = (action: Action, status: string, of = steps) => outlook(action, status, of).map(({ says, names = [], runs = [] }) => `${says} ${[...names, ...runs].join(", ")}`.trim());
  it("what a cancel reverts, and what a kill leaves as it is", () => {
    expect(said("cancel", "running")).toEqual([expect.stringMatching(/^Reverted, in this order, .*: flight, hotel$/), expect.stringMatching(/^In hand, and asked to stop.*: pay$/), expect.stringMatching(/^Children .* asked to stop too .*: run_a$/)]);
    expect(said("kill", "running")).toEqual([expect.stringMatching(/not reverted by anybody: flight, hotel$/), expect.stringMatching(/^In hand, and dropped.*: pay$/), expect.stringMatching(/^Children .* asked to stop .*: run_a$/)]);
    for (const action of ["cancel", "kill"] as const) for (const status of ["ready", "waiting"]) expect(said(action, status, [])).toEqual(["Nothing of it is done yet, and no child of it goes on."]);
  });
  it("and never that nothing is, while it does something of which no journal tells", () => {
    expect(said("cancel", "running", [])).toEqual([expect.stringMatching(/^What it does at this moment stands in no journal yet: it is asked to stop/)]);
    for (const status of ["running", "undoing"]) expect(said("kill", status, [])).toEqual([expect.stringMatching(/^What it does at this moment stands in no journal yet: it is dropped/)]);
    // Between two steps.
    expect(said("cancel", "running", steps.slice(0, 2))).toEqual([expect.stringMatching(/: flight, hotel$/), expect.stringMatching(/^What it does at this moment/)]);
    expect(said("kill", "running")).not.toContainEqual(expect.stringMatching(/no journal/));
  });
  it("what goes on until a run stands still, and what it waits for when it goes on", () => {
    expect(said("pause", "running")).toEqual(["In hand, and finished first: pay", "Children, which go on meanwhile: run_a", expect.stringMatching(/^It waits for these.*: event ok$/)]);
    // What a job does stands in no journal, nor what code does between two steps.
    expect([said("pause", "running", []), said("pause", "undoing", [])]).toEqual([["What it is doing is finished first."], ["What it is doing is finished first."]]);
    expect(said("pause", "waiting", [])).toEqual(["Nothing of it is in hand: it stands still at once."]);
    const undo = [{ ...step("undo", "hotel"), state: "running", ended_at: null }] as never[];
    expect(said("pause", "undoing", undo)).toEqual(["In hand, and finished first: undo hotel"]);
    expect(said("resume", "paused")).toEqual([expect.stringMatching(/^It goes on waiting for these.*: event ok$/), expect.stringMatching(/^Children .*: run_a$/)]);
    expect(said("resume", "paused", [])).toEqual([]);
    expect(said("delete", "completed")).toEqual([]);
  });
  it("whether an event or a value is waited for", () => {
    for (const kind of ["event", "settle"] as const) expect([arrival(kind, true), arrival(kind, false)]).toEqual([expect.stringMatching(/^The run waits for it/), expect.stringMatching(/does not wait for it now/)]);
  });
});

describe("a pause", () => {
  const act = (action: string, reason: string | null, status = 200) => ({ at: "2026-01-01T00:00:00Z", actor: "ann", action, reason, status });
  const held = (reason: string) => ({ status: "paused", reason }) as Run;
  it("is that of whoever gave the reason with which the run stands", () => {
    const given = act("run.pause", "stocktaking");
    expect(pauseOf(held("stocktaking"), [act("run.event", null), act("run.pause", "stocktaking", 403), given, act("run.pause", "before")])).toBe(given);
    const without = act("run.pause", null);
    expect(pauseOf(held("asked for by ann"), [without])).toBe(without);
  });
  it("is nobody's where it was asked for in another way, or is over", () => {
    expect(pauseOf(held("all at once"), [act("run.pause", "before")])).toBeUndefined();
    expect(pauseOf({ ...held("before"), status: "waiting" }, [act("run.pause", "before")])).toBeUndefined();
  });
});

describe("a step in an address", () => {
  const steps = [step("step", "charge"), step("undo", "charge"), step("step", "a:b")];
  it("is told from its undo", () => {
    for (const one of steps) expect(stepOf(steps, stepKey(one))).toBe(one);
    expect(steps.map(recordedName)).toEqual(["charge", "undo:charge", "a:b"]);
  });
  it("is found by a bare name too, as older addresses have it", () => {
    expect(stepOf(steps, "charge")).toBe(steps[0]);
    expect(stepOf(steps, "a:b")).toBe(steps[2]);
    expect(stepOf(steps, "nothing")).toBeUndefined();
    expect(stepOf(steps, undefined)).toBeUndefined();
  });
});
