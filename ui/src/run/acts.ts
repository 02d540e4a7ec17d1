// What can be done to a run, by its state: without a browser, so that it can be tested.
import type { Schemas } from "../api/client";
import { recordedName, type Run, type Step } from "../lib/state";
import type { Explained } from "./remedy";

export type Action = Due | "explain" | "cancel" | "kill" | "pause" | "resume" | "retry" | "event" | "settle" | "fork" | "upgrade" | "skip" | "rerun" | "delete";
/// What is done about the time at which it goes on by itself.
export type Due = "now" | "again" | "timer" | "time";
export const WORDS: Record<Action, string> = {
  explain: "Explain", now: "Run now", again: "Retry now", timer: "Skip timer", time: "Edit time",
  cancel: "Cancel", kill: "Kill", pause: "Pause", resume: "Resume", retry: "Retry", event: "Send event", settle: "Settle promise", fork: "Fork from a step",
  upgrade: "Fork to the latest version", skip: "Skip this undo", rerun: "Rerun", delete: "Delete",
};

/// What a button says. Of a run whose undo gave up nothing but that is tried again.
export function wordOf(action: Action, status: string): string {
  return action === "retry" && status === "undo_failed" ? "Retry undo" : WORDS[action];
}

export const MEANS: Partial<Record<Action, string>> = {
  now: "It is due now, and begins as soon as a node has room for it.",
  again: "The next attempt comes now. It counts like any other.",
  timer: "Its code goes on as if the time were over, which its journal records for good. Later timers are left alone.",
  time: "It is due at that time instead, or when its own deadline is over, whichever comes first.",
  cancel: "It is asked to stop, and reverts what it did where its code says how.",
  kill: "It ends at once, as cancelled. Nothing of what it did is reverted.",
  pause: "It is held back, as soon as what it is doing is done. What comes for it meanwhile is kept.",
  resume: "It goes on as if nothing had been.",
  delete: "The run, its steps, results and logs are gone for good. Nothing that it did is reverted.",
};

/// What it means, where that depends on how the run stands.
export function meaning(action: Action, status: string): string | undefined {
  if (action !== "delete" || status !== "ready") return MEANS[action];
  return "It has not begun, and never will: it is gone for good, with its input. If it begins before that, it stays.";
}

/// Who paused it, and when: whoever gave the reason that it stands with. One that was paused in another way, as with many others, stands
/// with a reason that nobody gave for it alone.
export function pauseOf(run: Pick<Run, "status" | "reason">, actions: Schemas["Action"][]): Schemas["Action"] | undefined {
  if (run.status !== "paused") return undefined;
  return actions.find(({ action, status, reason, actor }) => action === "run.pause" && status < 400 && run.reason === (reason || `asked for by ${actor}`));
}

/// What can be done about the time at which it goes on by itself. A time that its journal has can be over, but not another;
/// and nobody ends a wait for something else before its time.
export function dueOf(explained?: Pick<Explained, "kind" | "step" | "until" | "waits">): Due[] {
  switch (explained?.kind) {
    case "later":
    case "after_crash":
      return ["now", "time"];
    case "retry":
      return explained.step ? ["again"] : ["again", "time"];
    case "sleeping":
      return ["timer"];
    case "waiting": {
      const next = explained.waits?.find((wait) => ["sleep", "retry"].includes(wait.on) && wait.until && wait.until === explained.until);
      return next ? [next.on === "retry" ? "again" : "timer"] : [];
    }
    default:
      return [];
  }
}

/// What is known of a run beside its status, as far as that decides what makes sense.
interface Stands {
  due?: Due[];
  /// It was asked to stop.
  isAsked?: boolean;
  /// It is blocked because no node serves its queue.
  isUnserved?: boolean;
  /// Nothing of it was done yet, as far as that can be seen.
  isNew?: boolean;
}

/// What makes sense now, the likeliest first. Whoever wants a run to end asks it to stop, so that it reverts what it did; only where
/// that was asked, or nobody would hear it, it can be killed.
export function actionsOf(status: string, waits: string[], { due = [], isAsked = false, isUnserved = false, isNew = false }: Stands = {}): Action[] {
  const kill: Action[] = isAsked ? ["kill"] : [];
  switch (status) {
    case "ready":
      return [...due, "cancel", "pause", ...kill, ...(isNew ? (["delete"] as const) : [])];
    case "running":
      return ["cancel", "pause", "event", "settle", ...kill];
    case "waiting": {
      const first: Action[] = [...(waits.includes("event") ? (["event"] as const) : waits.includes("promise") ? (["settle"] as const) : []), ...due];
      const others: Action[] = ["cancel", "pause", "event", "settle", "fork", ...kill];
      return [...first, ...others.filter((one) => !first.includes(one))];
    }
    case "paused":
      return ["resume", "upgrade", "cancel", "event", "settle", "fork", ...kill];
    case "blocked":
      // A fork would stand in the same queue.
      return isUnserved ? ["explain", "retry", "cancel", "kill"] : ["explain", "upgrade", "fork", "retry", "cancel", "kill"];
    case "undoing":
      return ["explain", "pause", "kill"];
    case "undo_failed":
      return ["retry", "skip", "kill"];
    case "failed":
      return ["retry", "fork", "rerun", "delete"];
    case "cancelled":
      return ["rerun", "retry", "fork", "delete"];
    default:
      return ["rerun", "fork", "delete"];
  }
}

/// Instead of a step.
export const START = "\0start";
/// Where it went wrong, which a run knows that has failed.
export const WRONG = "";

/// Steps from which a fork can go on. An undo is what became of a run, and a repair what somebody did to it.
export function forkable(steps: Step[]): Step[] {
  return steps.filter((step) => !["undo", "revise", "cancel"].includes(step.op));
}

/// How many of them are offered at either end of a long run: nobody finds anything among more.
const ENDS = 250;

/// Those that are offered: the chosen one is among them, so that nobody sees one start and sends another.
export function startsOf(steps: Step[], chosen: string): Step[] {
  const all = forkable(steps);
  return all.filter((step, nth) => nth < ENDS || nth >= all.length - ENDS || recordedName(step) === chosen);
}

/// Where a fork goes on unless somebody says otherwise: where it went wrong, or from the last thing of one that goes on.
export function usualFrom(run: Pick<Run, "status" | "error">, steps: Step[]): string {
  if (run.error && run.status === "failed") return WRONG;
  const last = forkable(steps).at(-1);
  return run.status === "completed" || !last ? START : recordedName(last);
}

/// With which code a fork goes on: with that of its run, with that of new runs, or with a version that somebody names.
export type ForkVersion = "same" | "latest" | number;

/// A fork as the API wants it. What was not changed is not sent: the run has it, also what is hidden from whoever looks.
export function forkBody(from: string, version: ForkVersion, input: unknown, reason: string, dryRun: boolean) {
  return {
    from: from && from !== START ? from : undefined, from_start: from === START, latest: version === "latest", version: typeof version === "number" ? version : undefined,
    dry_run: dryRun, input, reason: reason || undefined,
  };
}

/// The versions that a fork can name, the newest first, and how many nodes know each: those that none knows would wait for one. Where
/// nobody tells of nodes all are offered that were ever told of.
export function versionsOf(name: string, cards: { version: number }[], nodes: { codes: string[] }[] | undefined): { version: number; nodes?: number }[] {
  const known = cards.map(({ version }) => ({ version, nodes: nodes?.filter((node) => node.codes.includes(`${name}@${version}`)).length }));
  return known.filter((one) => one.nodes !== 0).sort((a, b) => b.version - a.version);
}

/// One version that a fork can have.
export interface Choice {
  value: ForkVersion;
  says: string;
}

/// The versions that a fork can have, each once: that of its run, that of new runs where it is another or not known, and what else there is. What
/// somebody has chosen stays among them.
export function choicesOf(own: number, newest: number | undefined, known: { version: number; nodes?: number }[], chosen: ForkVersion): Choice[] {
  const told = (nodes: number | undefined) => (nodes === undefined ? "" : `, which ${nodes} ${nodes === 1 ? "node knows" : "nodes know"}`);
  const others = known.filter(({ version }) => version === chosen || (version !== own && version !== newest));
  return [
    { value: "same", says: own === newest ? `that of this run and of new runs (${own})` : `that of this run (${own})` },
    ...(own === newest ? [] : [{ value: "latest", says: `that of new runs${newest === undefined ? "" : ` (${newest})`}` } as const]),
    ...others.map(({ version, nodes }) => ({ value: version, says: `${version}${told(nodes)}` })),
  ];
}

/// What a run that is asked to stop has to revert and to stop with it, as far as its journal tells: which steps its code knows how to
/// undo stands in no journal.
export function stopping(steps: Step[]): { steps: string[]; children: string[] } {
  const undone = new Set(steps.flatMap((step) => (step.op === "undo" && step.state === "completed" ? [step.name] : [])));
  const done = steps.filter((step) => WORK.includes(step.op) && step.state === "completed" && !undone.has(step.name));
  return { steps: done.map((step) => step.name).reverse(), children: steps.flatMap((step) => (step.child && !step.ended_at ? [step.child] : [])) };
}
const WORK = ["step", "transaction"];

/// One thing that becomes of what a run has done, does or waits for.
export interface Outlook {
  says: string;
  names?: string[];
  /// Children of it.
  runs?: string[];
}

/// What somebody should know before a run is ended, held back or let go: as far as its journal tells.
export function outlook(action: Action, status: string, steps: Step[]): Outlook[] {
  const { steps: done, children } = stopping(steps);
  const open = (...ops: string[]) => steps.filter((step) => ops.includes(step.op) && !step.ended_at);
  const inHand = open(...WORK, "undo").filter((step) => step.state === "running").map((step) => (step.op === "undo" ? `undo ${step.name}` : step.name));
  const awaited = open("event", "promise", "sleep").map((step) => `${step.op} ${step.name}`);
  const isOn = ["running", "undoing"].includes(status);
  const nothing = { says: "Nothing of it is done yet, and no child of it goes on." };
  // Of what a job does no journal tells, nor of what code does between two steps, nor of a step before it has gone on for a while.
  const unknown = (becomes: string): Outlook[] => (isOn && !inHand.length ? [{ says: `What it does at this moment stands in no journal yet: ${becomes}` }] : []);
  switch (action) {
    case "cancel":
      return or(nothing, ...some({ says: "Reverted, in this order, where its code says how:", names: done }, { says: "In hand, and asked to stop; its code may finish it first:", names: inHand }),
        ...unknown("it is asked to stop, and its code may finish it first."), ...some({ says: "Children that go on, and are asked to stop too unless its code leaves them:", runs: children }));
    case "kill":
      return or(nothing, ...some({ says: "Done, and not reverted by anybody:", names: done }, { says: "In hand, and dropped; whatever has happened of it by then stays too:", names: inHand }),
        ...unknown("it is dropped, and whatever has happened of it by then stays."), ...some({ says: "Children that go on, and are asked to stop unless its code leaves them:", runs: children }));
    case "pause": {
      const now = { says: isOn ? "What it is doing is finished first." : "Nothing of it is in hand: it stands still at once." };
      return [...or(now, ...some({ says: "In hand, and finished first:", names: inHand })), ...some({ says: "Children, which go on meanwhile:", runs: children }, { says: "It waits for these, and goes on with none of them before it is resumed:", names: awaited })];
    }
    case "resume":
      return some({ says: "It goes on waiting for these, unless they have come meanwhile:", names: awaited }, { says: "Children that it has started, and that have not ended as far as it knows:", runs: children });
    default:
      return [];
  }
}

/// Those of which there is anything.
function some(...all: Outlook[]): Outlook[] {
  return all.filter((one) => one.names?.length || one.runs?.length);
}

function or(none: Outlook, ...found: Outlook[]): Outlook[] {
  return found.length ? found : [none];
}

/// What becomes of an event or of the value of a promise.
export function arrival(kind: "event" | "settle", isAwaited: boolean): string {
  if (isAwaited) return kind === "event" ? "The run waits for it, and goes on with it." : "The run waits for it, and goes on with this value. The first value stays.";
  return kind === "event" ? "The run does not wait for it now: it is kept until it does." : "The run does not wait for it now, and finds it when it does. The first value stays.";
}
