// The lives of a run: one ends where it is tried again after its end, another where it continues as new. Without a browser, so that it can be
// tested.
import type { Schemas } from "../api/client";
import type { Run, Step } from "../lib/state";
import { millis } from "../lib/time";

/// A line of the audit log is written about when it happens of which it tells.
const SOON = 60_000;
/// So far apart are the times of what came one right after the other.
const CLOSE = 100;

/// When a run was tried again after its end. The API says from when on it is wanted, also of one that was only to begin later: what it had done
/// before that, or that somebody asked for it then, tells them apart. Of one that had recorded nothing, and was tried again among many others, nothing does.
export function retriedAt(run: Pick<Run, "wanted_at">, steps: Step[], actions: Schemas["Action"][]): number | null {
  const wanted = millis(run.wanted_at);
  if (wanted === null) return null;
  const isOlder = steps.some((step) => (millis(step.began_at) ?? wanted) < wanted - CLOSE);
  const isAsked = actions.some(({ action, status, at }) => action === "run.retry" && status < 400 && Math.abs((millis(at) ?? 0) - wanted) < SOON);
  return isOlder || isAsked ? wanted : null;
}

/// Whether a run may have continued as new: its journal begins long after the run did, or has nothing in it yet.
export function mayBeAnew(run: Pick<Run, "created_at" | "status">, steps: Step[], now: number): boolean {
  const made = millis(run.created_at) ?? now;
  if (!steps.length) return !["ready", "completed"].includes(run.status) && now - made > 1000;
  return (millis(steps[0]!.began_at) ?? made) > made + 1000;
}

/// What stands before what a life of a job did, in one piece: what it recorded of that are attempts, and of the last of them nobody noted how
/// it went.
export function isOneLife(steps: Step[]): boolean {
  return steps.every((step) => step.op === "job");
}
