// All attempts of a step, in order: those that failed are recorded one by one, and the last one is what became of the step.
import { type Run, type Step, stepState } from "../lib/state";

export interface Try {
  number: number;
  began: string;
  ended?: string;
  /// When the next one came, or comes.
  next?: string;
  /// What became of it, where it is none of those that failed and were followed by another.
  state?: string;
  error?: string;
  /// Which node made it, of those that failed, or has it in hand now. Nobody records who made one that went well.
  node?: string;
}

export function triesOf(run: Pick<Run, "node" | "status" | "error">, step: Step, now: number): Try[] {
  const failed: Try[] = step.attempts.map((one) => ({ number: one.number, began: one.began_at, ended: one.failed_at, next: one.next_at, error: one.error.message, node: one.node ?? undefined }));
  const before = failed.at(-1);
  const began = before?.next ?? step.began_at;
  const state = stepState(step, run, now);
  // Of one that waits for its next attempt, or was given up, nobody noted that another began.
  if (["retrying", "waiting", "dropped"].includes(state)) return failed;
  const node = state === "running" ? (run.node ?? undefined) : undefined;
  // The last failure of a job is that of its run.
  const error = step.error ?? (step.op === "job" ? run.error : undefined);
  return [...failed, { number: (before?.number ?? 0) + 1, began, ended: step.ended_at ?? undefined, state, error: error?.message, node }];
}
