// Rows that hold still while somebody looks at them: without a browser, so that it can be tested.
import type { Run } from "./state";

/// A list of which some pages were asked for again, by their numbers: each is in its place.
export function renewed(pages: Run[][], again: ReadonlyMap<number, { items: Run[] }>): Run[] {
  const all = pages.flatMap((page, nth) => {
    const now = again.get(nth)?.items;
    if (!now) return page;
    const ids = new Set(now.map((run) => run.id));
    // Where so much is new that all of the first page is, what was there is behind it still: a next page can come below that.
    return nth || page.some((run) => ids.has(run.id)) ? now : [...now, ...page];
  });
  // A page of which some are gone has the first of the next one.
  const known = new Set<string>();
  return all.filter((run) => !known.has(run.id) && known.add(run.id));
}

/// The rows that were there, each as it is now and at its place, with what comes below them; and how many are new above. One that
/// fits no longer stays, as it was: whoever is about to press a key must not hit its neighbour.
///
/// `goesOn` says whether a next page can come below them: where none of them fits any more, page after page would be asked for
/// to find their place.
export function steady(held: Run[], runs: Run[]): { rows: Run[]; newer: number; goesOn: boolean } {
  const now = new Map(runs.map((run) => [run.id, run]));
  const known = new Set(held.map((run) => run.id));
  const last = runs.findLastIndex((run) => known.has(run.id));
  const below = last < 0 ? [] : runs.slice(last + 1);
  const above = last < 0 ? runs : runs.slice(0, last).filter((run) => !known.has(run.id));
  return { rows: [...held.map((run) => now.get(run.id) ?? run), ...below], newer: above.length, goesOn: last >= 0 };
}
