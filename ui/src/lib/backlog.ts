// Whether what is kept no longer goes: nodes look every minute, and delete two thousand runs at a time.
import { between, millis } from "./time";

/// What is late by no more than this is on its way.
const SOON = 10 * 60_000;

/// For how long the first of the ended runs should have been gone; `null` while nodes keep up.
export function backlog(next: string | null | undefined, now: number): number | null {
  const due = millis(next);
  const late = due === null ? 0 : between(due, now);
  return late > SOON ? late : null;
}
