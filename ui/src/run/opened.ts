// What of a timeline is open, as it stands in an address: a copied link opens the same. Without a browser, so that it can be tested.
import type { Step } from "../lib/state";

/// What of a timeline stands in an address.
export interface Shown {
  /// The stretch that is shown, in milliseconds from the start: `200-1500`.
  zoom?: string;
  /// Children that are open: the ends of their ids, or `all`.
  open?: string;
  /// Idle stretches that are shown whole: when each began, in milliseconds from the start.
  bands?: string;
  /// Scopes whose operations nobody wants to see.
  closed?: string | string[];
}

/// How many children are opened at once: each is asked for.
export const MOST_OPEN = 50;
const ALL = "all";
/// By so much of their ends ids are told apart, here as in lists.
const END = 8;
/// It stands in addresses as it is.
const MARK = ".";

/// The children that are open, those of this run first and then theirs; `stepsOf` has the steps of those that have come.
export function openOf(open: string | undefined, steps: Step[], stepsOf: (child: string) => Step[] | undefined): string[] {
  if (!open) return [];
  const ends = new Set(open.split(MARK).slice(-MOST_OPEN));
  const found = new Set<string>();
  for (let level = steps; level.length; ) {
    const next = level.flatMap((step) => (step.child && !found.has(step.child) && (ends.has(ALL) || ends.has(step.child.slice(-END))) ? [step.child] : []));
    const fresh = next.slice(0, MOST_OPEN - found.size);
    fresh.forEach((child) => found.add(child));
    level = fresh.flatMap((child) => stepsOf(child) ?? []);
  }
  return [...found];
}

export function isAll(open: string | undefined): boolean {
  return !!open?.split(MARK).includes(ALL);
}

/// The address when `child` was opened or closed, where `wanted` are open. What it names and has not come yet stays.
export function withChild(open: string | undefined, wanted: readonly string[], child: string): string | undefined {
  const ends = isAll(open) ? wanted.map((one) => one.slice(-END)) : (open?.split(MARK) ?? []);
  const end = child.slice(-END);
  const next = ends.includes(end) ? ends.filter((one) => one !== end) : [...ends, end].slice(-MOST_OPEN);
  return next.join(MARK) || undefined;
}

/// All of them, or none.
export function withAll(isAll: boolean): string | undefined {
  return isAll ? ALL : undefined;
}

/// When the idle stretches began that are shown whole, of a run that began at `from`.
export function bandsOf(bands: string | undefined, from: number): Set<number> {
  return new Set((bands?.split(MARK) ?? []).filter((one) => /^\d{1,15}$/.test(one)).map((one) => from + Number(one)));
}

/// The address when that stretch was made wide or narrow.
export function withBand(bands: string | undefined, from: number, band: number): string | undefined {
  const next = bandsOf(bands, from);
  if (!next.delete(band)) next.add(band);
  return [...next].map((one) => String(one - from)).join(MARK) || undefined;
}

/// The scopes that are closed, as the rows of a timeline know them.
export function closedOf(closed: string | string[] | undefined): Set<string> {
  return new Set([closed ?? []].flat());
}

/// The address when that scope was closed or opened.
export function withScope(closed: string | string[] | undefined, scope: string): string[] | undefined {
  const next = closedOf(closed);
  if (!next.delete(scope)) next.add(scope);
  return next.size ? [...next].slice(-MOST_OPEN) : undefined;
}
