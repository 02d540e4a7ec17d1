// Where things stand on the timeline: pure functions from times to pixels, so that they can be tested without a browser.
//
// What a step does is cut into segments (running, pausing after a failed attempt, waiting). Stretches in which nothing
// runs are idle: a run that waits an hour for a person would otherwise show its seconds of work as hairlines. They are
// drawn as narrow bands that say how long they are.
import type { Step } from "../lib/state";
import { duration, millis } from "../lib/time";

export type SegmentKind = "run" | "backoff" | "wait";
export interface Segment {
  kind: SegmentKind;
  from: number;
  to: number;
  /// The number of the attempt, of a run segment.
  attempt?: number;
  failed?: boolean;
}
export interface Gap {
  from: number;
  to: number;
}
export interface Band extends Gap {
  left: number;
  width: number;
}

// A child works, if elsewhere.
const WORKS = new Set(["step", "transaction", "job", "undo", "child"]);
/// Width of an idle band, and of the shortest bar that can still be seen.
export const BAND = 28;
export const LEAST = 3;

/// What a step did, piece by piece. What goes on ends now.
export function segments(step: Step, now: number): Segment[] {
  const began = millis(step.began_at) ?? now;
  const end = Math.max(began, millis(step.ended_at) ?? now);
  if (!WORKS.has(step.op)) return [{ kind: "wait", from: began, to: end }];
  const found: Segment[] = [];
  let from = began;
  let number = 1;
  for (const attempt of step.attempts) {
    from = Math.min(millis(attempt.began_at) ?? from, end);
    const failed = clamp(millis(attempt.failed_at) ?? from, from, end);
    const next = clamp(millis(attempt.next_at) ?? failed, failed, end);
    found.push({ kind: "run", from, to: failed, attempt: attempt.number, failed: true });
    found.push({ kind: "backoff", from: failed, to: next });
    from = next;
    number = attempt.number + 1;
  }
  // Between attempts there is no attempt that goes on.
  const pausing = !step.ended_at && step.attempts.length > 0 && from >= end;
  if (!pausing) found.push({ kind: "run", from, to: end, attempt: number, failed: step.state === "failed" });
  return found;
}

/// Stretches in which nothing runs, if they are long and longer than a share of the whole.
export function idle(busy: Gap[], from: number, to: number, share = 0.03, least = 1000): Gap[] {
  const long = Math.max(least, (to - from) * share);
  const gaps: Gap[] = [];
  let until = from;
  for (const one of busy.toSorted((a, b) => a.from - b.from)) {
    if (one.from - until > long) gaps.push({ from: until, to: one.from });
    until = Math.max(until, one.to);
  }
  if (to - until > long) gaps.push({ from: until, to });
  // With nothing left but gaps there would be nothing to see.
  return gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0) < to - from ? gaps : [];
}

export type Share = "later" | "queued" | "running" | "waiting" | "backoff" | "between" | "still";

/// What is known beside the steps of a run.
interface Tail {
  /// What comes after the last step: of one that stands still, or works on what is not recorded yet.
  is?: "still" | "running";
  /// Since when it stands still. What waits meanwhile does not wait.
  since?: number;
}

/// What the whole of a run was spent on, to the millisecond. Where several things went on at once the busiest counts. Before anything
/// did, it stood in line; of what is between two things nobody noted whether it stood in line, was paused or blocked.
export function shares(steps: Step[], from: number, to: number, now: number, tail: Tail = {}): Record<Share, number> {
  const found: Record<Share, number> = { later: 0, queued: 0, running: 0, waiting: 0, backoff: 0, between: 0, still: 0 };
  const changes: [number, SegmentKind, number][] = [];
  for (const step of steps) {
    for (const one of segments(step, now)) {
      // A child's work is what this one waits for.
      const kind = step.op === "child" && one.kind === "run" ? "wait" : one.kind;
      const [begin, end] = [clamp(one.from, from, to), clamp(one.to, from, to)];
      if (end > begin) changes.push([begin, kind, 1], [end, kind, -1]);
    }
  }
  changes.sort((a, b) => a[0] - b[0]);
  const [first, last] = [changes[0]?.[0] ?? to, changes.at(-1)?.[0] ?? from];
  const open = { run: 0, backoff: 0, wait: 0 };
  const held = tail.is === "still" ? clamp(tail.since ?? to, from, to) : to;
  changes.push([held, "run", 0], [to, "run", 0]);
  changes.sort((a, b) => a[0] - b[0]);
  let at = from;
  for (const [time, kind, change] of changes) {
    const share: Share = open.run ? "running" : at >= held ? "still" : open.backoff ? "backoff" : open.wait ? "waiting" : tail.is && at >= last ? tail.is : at < first ? "queued" : "between";
    found[share] += Math.max(0, time - at);
    at = Math.max(at, time);
    open[kind] += change;
  }
  return found;
}

/// The same where it is known when a node first took it: only until then it stood in line, and not before it was wanted. Of one that recorded nothing,
/// as jobs do, all the rest is work.
export function taken(found: Record<Share, number>, from: number, to: number, at: number | null, isAlone: boolean, wanted: number | null = null): Record<Share | "all", number> {
  const all = inLine(found, from, to, at, isAlone);
  const later = Math.min(all.queued, clamp(wanted ?? from, from, to) - from);
  return { ...all, later, queued: all.queued - later };
}

function inLine(found: Record<Share, number>, from: number, to: number, at: number | null, isAlone: boolean): Record<Share | "all", number> {
  if (isAlone && at === null) return { ...found, queued: 0, running: 0, all: to - from };
  if (at === null) return { ...found, all: 0 };
  const queued = clamp(at, from, to) - from;
  if (isAlone) return { ...found, queued, running: to - from - queued, all: 0 };
  const shorter = Math.min(queued, found.queued);
  return { ...found, queued: shorter, between: found.between + found.queued - shorter, all: 0 };
}

/// Where a time stands, in pixels: what shrinks while the right edge is now and goes on, and what idle bands before it take.
export interface Place {
  elastic: number;
  fixed: number;
}

export interface Scale {
  x(time: number): number;
  place(time: number): Place;
  /// The time at a pixel.
  time(x: number): number;
  bands: Band[];
  /// Idle stretches that somebody wanted to see whole.
  opened: Gap[];
  from: number;
  to: number;
  width: number;
}

/// Times to pixels: straight, but for gaps, which all have the same width.
export function scale(from: number, to: number, gaps: Gap[], width: number): Scale {
  const band = Math.min(BAND, gaps.length ? width / 2 / gaps.length : BAND);
  const shown = Math.max(1, to - from - gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0));
  const perMilli = Math.max(0, width - gaps.length * band) / shown;
  const bands: Band[] = [];
  let cut = 0;
  for (const gap of gaps) {
    bands.push({ ...gap, left: (gap.from - from - cut) * perMilli + bands.length * band, width: band });
    cut += gap.to - gap.from;
  }
  const place = (time: number): Place => {
    const at = clamp(time, from, to);
    let before = 0;
    let count = 0;
    for (const one of bands) {
      if (at >= one.to) {
        before += one.to - one.from;
        count++;
      } else if (at > one.from) {
        return { elastic: (one.from - from - before) * perMilli, fixed: count * band + ((at - one.from) / (one.to - one.from)) * one.width };
      } else break;
    }
    return { elastic: (at - from - before) * perMilli, fixed: count * band };
  };
  const x = (time: number) => {
    const { elastic, fixed } = place(time);
    return elastic + fixed;
  };
  const time = (pixel: number) => {
    let [low, high] = [from, to];
    for (let i = 0; i < 50; i++) {
      const middle = (low + high) / 2;
      if (x(middle) < pixel) low = middle;
      else high = middle;
    }
    return high;
  };
  return { x, place, time, bands, opened: [], from, to, width };
}

/// The scale of a run, or of a stretch of it.
export function wholeScale(steps: Step[], from: number, to: number, width: number, compress: boolean, open: ReadonlySet<number>, now = to, working?: Gap): Scale {
  if (!compress) return scale(from, to, [], width);
  const isSeen = (one: Segment) => one.kind === "run" && one.to >= from && one.from <= to;
  const busy: Gap[] = steps.flatMap((step) => segments(step, now).filter(isSeen));
  if (working) busy.push(working);
  const gaps = idle(busy, from, to);
  const narrow = gaps.filter((gap) => !open.has(gap.from));
  return { ...scale(from, to, narrow, width), opened: gaps.filter((gap) => open.has(gap.from)) };
}

/// What of a step is to be seen. Called for rows that are on the screen, and for no others.
export function bars(step: Step, scale: Scale, now: number): Segment[] {
  return segments(step, now).filter((one) => one.to >= scale.from && one.from <= scale.to);
}

/// What a run that is in hand does since the last thing that it recorded: its next is not recorded before it is done.
export function working(status: string, steps: Step[], now: number): Gap | undefined {
  if (!["running", "undoing"].includes(status) || !steps.length) return undefined;
  let last = 0;
  for (const step of steps) last = Math.max(last, millis(step.ended_at) ?? millis(step.attempts.at(-1)?.next_at) ?? millis(step.began_at) ?? 0);
  return { from: Math.min(last, now), to: now };
}

/// Whether something works right now.
export function isBusy(steps: Step[], now: number): boolean {
  return steps.some((step) => !step.ended_at && segments(step, now).at(-1)?.kind === "run");
}

/// How far the scale has shrunk when its right edge, which was now, is so many milliseconds later.
export function shrunk(scale: Scale, later: number): number {
  const shown = Math.max(1, scale.to - scale.from - idleOf(scale));
  return shown / (shown + Math.max(0, later));
}

function idleOf(scale: Scale): number {
  return scale.bands.reduce((sum, band) => sum + band.to - band.from, 0);
}

/// A stretch of the axis as a style. Where the scale moves, the style follows `--k`, what `shrunk` gives, so that one number moves
/// everything from frame to frame and nothing is drawn anew.
export function styled(scale: Scale, from: number, to: number, moves: boolean, least = LEAST): { left: string; width: string } {
  const [begin, end] = [scale.place(from), scale.place(to)];
  const most = `${Math.max(0, scale.width - least)}px`;
  if (!moves) {
    const left = begin.elastic + begin.fixed;
    return { left: `min(${px(left)}, ${most})`, width: px(Math.max(least, end.elastic + end.fixed - left)) };
  }
  const left = `var(--k) * ${px(begin.elastic)} + ${px(begin.fixed)}`;
  // The right edge stays where it is, whatever time it is by then.
  const width = to >= scale.to ? `${px(end.elastic + end.fixed - begin.fixed)} - var(--k) * ${px(begin.elastic)}` : `var(--k) * ${px(end.elastic - begin.elastic)} + ${px(end.fixed - begin.fixed)}`;
  return { left: `min(${left}, ${most})`, width: `max(${width}, ${px(least)})` };
}

function px(pixels: number): string {
  return `${Math.round(pixels * 100) / 100}px`;
}

/// Round times after the run began along the axis, at least so many pixels apart; none inside of bands.
export function ticks(scale: Scale, began = scale.from, apart = 90): number[] {
  const wish = ((scale.to - scale.from - idleOf(scale)) / Math.max(1, scale.width)) * apart;
  const step = STEPS.find((one) => one >= wish) ?? STEPS.at(-1)!;
  const next = (time: number) => began + Math.ceil((time - began) / step) * step;
  const found: number[] = [];
  let last = -Infinity;
  for (let time = next(scale.from); time <= scale.to && found.length < 100; ) {
    const at = time;
    const band = scale.bands.find((one) => at > one.from && at < one.to);
    if (band) {
      // Long gaps are stepped over at once.
      time = next(band.to);
      continue;
    }
    const x = scale.x(time);
    if (x - last >= apart * 0.7 && x < scale.width - 40) {
      found.push(time);
      last = x;
    }
    time += step;
  }
  return found;
}

/// Where anything worked, and where it failed, in at most so many stretches: a whole run in little room.
export function outline(steps: Step[], scale: Scale, now: number, most = 300): { left: number; width: number; failed: boolean }[] {
  const cell = Math.max(1, scale.width / most);
  const cells: (boolean | undefined)[] = [];
  for (const step of steps) {
    for (const one of segments(step, now)) {
      if (one.kind !== "run" || one.to < scale.from || one.from > scale.to) continue;
      const last = Math.min(Math.floor(scale.x(one.to) / cell), Math.ceil(scale.width / cell) - 1);
      for (let at = Math.min(Math.floor(scale.x(one.from) / cell), last); at <= last; at++) cells[at] = cells[at] || !!one.failed;
    }
  }
  const found: { first: number; last: number; failed: boolean }[] = [];
  for (let at = 0; at < cells.length; at++) {
    const [failed, before] = [cells[at], found.at(-1)];
    if (failed === undefined) continue;
    if (before?.last === at - 1 && before.failed === failed) before.last = at;
    else found.push({ first: at, last: at, failed });
  }
  return found.map(({ first, last, failed }) => ({ left: first * cell, width: (last - first + 1) * cell, failed }));
}

/// How wide a letter of the axis is, about.
const LETTER = 7;
/// What of a band is left beside the length of another, at least: less than that nobody points at.
const MARK = 10;
/// So far beyond the right edge of the axis a length may stand.
const BEYOND = 8;

/// What stands on the axis for an idle stretch.
export interface Named {
  gap: Band;
  /// Whether somebody wanted to see it whole.
  isOpen: boolean;
  /// How long it is; nothing where there is no room for that.
  text: string;
  left: number;
  width: number;
}

/// Where lengths of idle stretches stand: in the middle of each, but never beyond the edge. The longest stretch comes first. One for which
/// there is no room beside those, or which would cover another stretch, has a mark without letters in what is left of its own.
export function named(scale: Scale): Named[] {
  const opened = scale.opened.map((gap) => ({ ...gap, left: scale.x(gap.from), width: scale.x(gap.to) - scale.x(gap.from) }));
  const all = [...scale.bands.map((gap) => ({ gap, isOpen: false })), ...opened.map((gap) => ({ gap, isOpen: true }))];
  const found: Named[] = [];
  const bare: Named[] = [];
  for (const one of all.toSorted((a, b) => b.gap.to - b.gap.from - (a.gap.to - a.gap.from))) {
    const { gap } = one;
    const length = duration(gap.to - gap.from);
    const text = one.isOpen ? `› ${length} ‹` : length;
    const width = LETTER * text.length + 4;
    const left = clamp(gap.left + gap.width / 2, width / 2, scale.width + BEYOND - width / 2) - width / 2;
    const next = { ...one, text, left, width };
    const meets = found.some((before) => left < before.left + before.width && left + width > before.left);
    const covers = all.some(({ gap: other }) => other !== gap && found.every((before) => before.gap !== other) && free(other, [...found, next]).width < Math.min(MARK, other.width));
    if (meets || covers) bare.push({ ...one, text: "", ...gap });
    else found.push(next);
  }
  return [...found, ...bare.map((one) => ({ ...one, ...free(one.gap, found) }))].sort((a, b) => a.gap.from - b.gap.from);
}

/// The widest of what is left of a band beside these.
function free({ left, width }: Band, names: Named[]): { left: number; width: number } {
  let [widest, from] = [{ left, width: 0 }, left];
  for (const one of [...names.toSorted((a, b) => a.left - b.left), { left: left + width, width: 0 }]) {
    const to = Math.min(one.left, left + width);
    if (to - from > widest.width) widest = { left: from, width: to - from };
    from = Math.max(from, one.left + one.width);
  }
  return widest;
}

/// What stands at those times. Where the length of a band stands nothing else does, and nothing is said twice in a row.
export function labels(scale: Scale, began: number, names = named(scale)): [number, string][] {
  let last = "";
  return ticks(scale, began).map((time) => {
    const label = Math.abs(time - began) < 1 ? "0" : `+${duration(time - began)}`;
    const [left, right] = [scale.x(time), scale.x(time) + 5 + LETTER * label.length];
    const isCovered = names.some((one) => left < one.left + one.width && right > one.left);
    if (isCovered || label === last) return [time, ""];
    last = label;
    return [time, label];
  });
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 6048e5];

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), Math.max(least, most));
}
