// States as people see them: a word, an icon and a colour each, never a colour alone.
import type { components } from "../api/schema";
import { millis } from "./time";

export type Run = components["schemas"]["Run"];
export type Step = components["schemas"]["Step"];

export const STATES = {
  scheduled: { icon: "◷", tone: "grey" },
  queued: { icon: "⧗", tone: "grey" },
  running: { icon: "▶", tone: "blue" },
  waiting: { icon: "…", tone: "violet" },
  retrying: { icon: "↻", tone: "amber" },
  paused: { icon: "❚❚", tone: "grey" },
  blocked: { icon: "⊘", tone: "amber" },
  undoing: { icon: "↶", tone: "amber" },
  undo_failed: { icon: "↶✕", tone: "red" },
  completed: { icon: "✓", tone: "green" },
  failed: { icon: "✕", tone: "red" },
  cancelled: { icon: "⦸", tone: "grey" },
  dropped: { icon: "–", tone: "grey" },
} as const;
export type State = keyof typeof STATES;

const FINAL = ["completed", "failed", "cancelled"];

export function isFinal(status: string): boolean {
  return FINAL.includes(status);
}

/// The state that is shown: `ready` is a word for the store, not for people.
export function stateOf(run: Pick<Run, "status" | "due_at" | "attempt">, now: number): State {
  if (run.status === "ready") {
    const due = millis(run.due_at);
    if (due !== null && due > now + 500) return run.attempt > 1 ? "retrying" : "scheduled";
    return "queued";
  }
  return (run.status in STATES ? run.status : "queued") as State;
}
