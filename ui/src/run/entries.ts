// The entries of a journal. What has come stays, so that of a run that goes on only what may be new is asked for: where all of it were, one
// page after the other, they would always be on their way, and the next page would never come.
import type { Schemas } from "../api/client";
import { write } from "../lib/json";

/// Entries of one answer.
export const PAGE = 500;

type Entry = Schemas["Entry"];

export interface Known {
  entries: Entry[];
  /// Whether that was all when it was asked for.
  isAll: boolean;
}

type Ask = (after: number) => Promise<{ items: Entry[]; next_after?: number | null }>;

/// A history of which some is known, with what is behind that; until there are as many as `wanted`, or all. While there is more than somebody
/// wants nothing is asked.
export async function laterEntries(known: Known | undefined, page: Ask, wanted = 0): Promise<Known> {
  if (!known?.entries.length) return onward([], 0, page, wanted);
  if (!known.isAll && known.entries.length >= wanted) return known;
  const last = known.entries[settled(known.entries) - 1]!;
  // It is asked for again, and has to be the same: a run that continued as new has thrown away what it had.
  const later = await onward(known.entries.slice(0, settled(known.entries) - 1), last.pos - 1, page, Math.max(wanted, known.entries.length));
  const again = later.entries.find((entry) => entry.pos >= last.pos);
  if (!again || write(again) !== write(last)) return onward([], 0, page, wanted);
  return later.isAll === known.isAll && later.entries.length === known.entries.length ? known : later;
}

async function onward(before: Entry[], from: number, page: Ask, wanted: number): Promise<Known> {
  const entries = [...before];
  let after: number | null | undefined = from;
  do {
    const next: Awaited<ReturnType<Ask>> = await page(after);
    entries.push(...next.items);
    after = next.next_after;
  } while (after != null && entries.length < wanted);
  return { entries, isAll: after == null };
}

/// How many stay where they are, whatever comes. A transaction of a branch is recorded by itself, and may be before entries of other branches
/// that have their places before it: behind such a gap nothing is settled. That is so for as long as one turn takes, and so it is not looked for
/// among what is long past.
function settled(entries: Entry[]): number {
  const from = Math.max(1, entries.length - PAGE);
  for (let at = from; at < entries.length; at++) if (entries[at]!.pos !== entries[at - 1]!.pos + 1) return at;
  return entries.length;
}
