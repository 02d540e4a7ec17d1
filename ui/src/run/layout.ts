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

export type Share = "queued" | "running" | "waiting" | "backoff" | "between" | "still";

/// What the whole of a run was spent on, to the millisecond. Where several things went on at once the busiest counts. Before anything
/// did, it stood in line; of what is between two things nobody noted whether it stood in line, was paused or blocked. Of one that
/// stands still (`isStill`) what comes after the last thing is that.
export function shares(steps: Step[], from: number, to: number, now: number, isStill = false): Record<Share, number> {
  const found: Record<Share, number> = { queued: 0, running: 0, waiting: 0, backoff: 0, between: 0, still: 0 };
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
  let at = from;
  for (const [time, kind, change] of [...changes, [to, "run", 0] as const]) {
    const share: Share = open.run ? "running" : open.backoff ? "backoff" : open.wait ? "waiting" : isStill && at >= last ? "still" : at < first ? "queued" : "between";
    found[share] += Math.max(0, time - at);
    at = Math.max(at, time);
    open[kind] += change;
  }
  return found;
}

export interface Scale {
  x(time: number): number;
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
  const x = (time: number) => {
    const at = clamp(time, from, to);
    let before = 0;
    let count = 0;
    for (const one of bands) {
      if (at >= one.to) {
        before += one.to - one.from;
        count++;
      } else if (at > one.from) {
        return one.left + ((at - one.from) / (one.to - one.from)) * one.width;
      } else break;
    }
    return (at - from - before) * perMilli + count * band;
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
  return { x, time, bands, opened: [], from, to, width };
}

/// The scale of a run, or of a stretch of it.
export function wholeScale(steps: Step[], from: number, to: number, width: number, compress: boolean, open: Set<number>, now = to): Scale {
  if (!compress) return scale(from, to, [], width);
  const isSeen = (one: Segment) => one.kind === "run" && one.to >= from && one.from <= to;
  const busy = steps.flatMap((step) => segments(step, now).filter(isSeen));
  const gaps = idle(busy, from, to);
  const narrow = gaps.filter((gap) => !open.has(gap.from));
  return { ...scale(from, to, narrow, width), opened: gaps.filter((gap) => open.has(gap.from)) };
}

export interface Bar extends Segment {
  left: number;
  width: number;
}

/// The bars of one row. Called for rows that are on the screen, and for no others.
export function bars(step: Step, scale: Scale, now: number): Bar[] {
  const seen = segments(step, now).filter((one) => one.to >= scale.from && one.from <= scale.to);
  return seen.map((one) => {
    const left = scale.x(one.from);
    const width = Math.max(LEAST, scale.x(one.to) - left);
    return { ...one, left: Math.min(left, Math.max(0, scale.width - LEAST)), width };
  });
}

/// Round times along the axis, at least so many pixels apart; none inside of bands.
export function ticks(scale: Scale, apart = 90): number[] {
  const shown = scale.to - scale.from - scale.bands.reduce((sum, band) => sum + band.to - band.from, 0);
  const wish = (shown / Math.max(1, scale.width)) * apart;
  const step = STEPS.find((one) => one >= wish) ?? STEPS.at(-1)!;
  const found: number[] = [];
  let last = -Infinity;
  for (let time = scale.from; time <= scale.to && found.length < 100; ) {
    const at = time;
    const band = scale.bands.find((one) => at > one.from && at < one.to);
    if (band) {
      // Long gaps are stepped over at once.
      time = scale.from + Math.ceil((band.to - scale.from) / step) * step;
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

/// How wide a letter of the axis is, about.
const LETTER = 7;

/// What stands at those times. Where the length of a band stands nothing else does, and nothing is said twice in a row.
export function labels(scale: Scale, began: number): [number, string][] {
  let last = "";
  return ticks(scale).map((time) => {
    const label = Math.abs(time - began) < 1 ? "0" : `+${duration(time - began)}`;
    const [left, right] = [scale.x(time), scale.x(time) + 5 + LETTER * label.length];
    const isCovered = scale.bands.some((band) => {
      const half = (LETTER * duration(band.to - band.from).length) / 2 + 2;
      const middle = clamp(band.left + band.width / 2, half, scale.width - half);
      return left < middle + half && right > middle - half;
    });
    if (isCovered || label === last) return [time, ""];
    last = label;
    return [time, label];
  });
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 6048e5];

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), Math.max(least, most));
}
