// States as people see them: a word, an icon and a colour each, never a colour alone.
import type { components } from "../api/schema";
import { millis } from "./time";

export type Run = components["schemas"]["Run"];
export type Step = components["schemas"]["Step"];

/// What a step is called in an address. A name alone is not enough: the undo of `charge` is called `charge` too.
export function stepKey(step: Pick<Step, "op" | "name">): string {
  return `${step.op}:${step.name}`;
}

/// Its name without the number that tells it from others of the same name.
export function plainName(step: Pick<Step, "name">): string {
  return step.name.split("#")[0]!;
}

/// What the API calls it where something shall be done from there on: a step by its name, anything else with its kind.
export function recordedName(step: Pick<Step, "op" | "name">): string {
  return step.op === "step" ? step.name : stepKey(step);
}

/// The step that an address names. Addresses of older versions have a bare name.
export function stepOf(steps: Step[], key: string | undefined): Step | undefined {
  return steps.find((step) => stepKey(step) === key) ?? steps.find((step) => step.name === key);
}

export const STATES = {
  scheduled: { icon: "M8 4.5V8l2.4 1.6M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Z", tone: "grey" },
  queued: { icon: "M4 2h8M4 14h8M5 2c0 3 3 4.5 3 6s-3 3-3 6M11 2c0 3-3 4.5-3 6s3 3 3 6", tone: "grey" },
  running: { icon: "M14 8a6 6 0 1 1-3-5.2", tone: "blue" },
  waiting: { icon: "M3 8h.01M8 8h.01M13 8h.01", tone: "violet" },
  retrying: { icon: "M13 4v3h-3M13 7a5.5 5.5 0 1 0 .3 3", tone: "amber" },
  paused: { icon: "M5.5 3v10M10.5 3v10", tone: "grey" },
  blocked: { icon: "M2 5h12v5H2zM4 10v4M12 10v4M5 10l4-5M9 10l4-5", tone: "amber" },
  undoing: { icon: "M6 3 2.5 6.5 6 10M3 6.5h6a4 4 0 0 1 0 8H7", tone: "amber" },
  undo_failed: { icon: "M5 2 2 5l3 3M2.5 5H8a3.5 3.5 0 0 1 3 2M9 10l5 5M14 10l-5 5", tone: "red" },
  completed: { icon: "m3 8.5 3.5 3.5L13 4.5", tone: "green" },
  failed: { icon: "m4 4 8 8M12 4l-8 8", tone: "red" },
  cancelled: { icon: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM4 12l8-8", tone: "grey" },
  dropped: { icon: "M4 8h8", tone: "grey" },
} as const;
export type State = keyof typeof STATES;

const FINAL = ["completed", "failed", "cancelled"];

export function isFinal(status: string): boolean {
  return FINAL.includes(status);
}

/// What is due within this is due: clocks that differ by less than a second are not put right, and the page's own ticks once in a second.
const SOON = 2500;

/// The state that is shown: `ready` is a word for the store, not for people. When it is due says something of such a run alone, and of
/// none that a node has. What a run waits for stands in a list; of a single run `explain` says it (`why`).
export function stateOf(run: Shown, now: number, why?: string): State {
  if (run.status === "waiting") return why === "retry" || run.waiting_for?.on === "retry" ? "retrying" : "waiting";
  if (run.status !== "ready") return (run.status in STATES ? run.status : "queued") as State;
  const due = run.node ? null : millis(run.due_at);
  if (due === null || due <= now) return "queued";
  // One that is about to be tried again is not in line for the first time, however soon it is.
  if (run.attempt > 1 || why === "after_crash") return "retrying";
  return due > now + SOON ? "scheduled" : "queued";
}

/// What went wrong, of a run that failed or stands still half undone.
export function wrongOf({ status, error, reason }: Pick<Run, "status" | "error" | "reason">): string | undefined {
  return (status === "undo_failed" ? reason : null) ?? error?.message;
}

type Shown = Pick<Run, "status" | "due_at" | "attempt"> & Partial<Pick<Run, "node" | "waiting_for">>;

/// The state of one operation. That it is tried again is no more than that once its next attempt has begun; and what became of a job
/// is recorded of its run.
export function stepState(step: Pick<Step, "op" | "state" | "attempts">, run: Pick<Run, "status">, now: number): State {
  const next = millis(step.attempts.at(-1)?.next_at);
  if (step.state === "retrying" && run.status === "running" && next !== null && next <= now) return "running";
  if (step.op === "job" && step.state === "dropped" && isFinal(run.status)) return run.status as State;
  return (step.state in STATES ? step.state : "running") as State;
}
