// What the cards of the first page say beside a plain number.
import { counted } from "./number";

/// The server counts unfinished runs up to this. What ended is summed up, and exact.
const MOST = 10_000;

export function upTo(count: number): string {
  return count >= MOST ? "10k+" : counted(count);
}

/// How many of those in line are due later; where only so many were counted, how many at least. Of a tenant it is not known.
export function later({ queued, scheduled }: { queued: number; scheduled?: number | null }): string | undefined {
  if (scheduled == null) return queued ? "with those due later" : undefined;
  return scheduled ? `and ${counted(scheduled)}${queued + scheduled >= MOST ? "+" : ""} later` : undefined;
}
