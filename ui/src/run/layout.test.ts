import { describe, expect, it } from "vitest";
import type { Step } from "../lib/state";
import { BAND, bars, idle, isBusy, labels, named, outline, scale, segments, shares, shrunk, styled, taken, ticks, wholeScale, working } from "./layout";

const at = (ms: number) => new Date(ms).toISOString();
function step(op: string, from: number, to: number | null, more: Partial<Step> = {}): Step {
  return {
    op, name: `${op}-${from}`, state: to === null ? "running" : "completed", began_at: at(from), ended_at: to === null ? null : at(to),
    until: null, child: null, attempts: [], result: null, error: null, ...more,
  } as Step;
}
const HOUR = 3_600_000;
const NONE = { later: 0, queued: 0, running: 0, waiting: 0, backoff: 0, between: 0, still: 0 };

describe("the timeline", () => {
  it("cuts a step with failed attempts into runs and pauses", () => {
    const error = { message: "no", detail: {} };
    const attempts = [{ number: 1, began_at: at(0), failed_at: at(100), next_at: at(1100), error }];
    expect(segments(step("step", 0, 1500, { attempts } as Partial<Step>), 9999)).toEqual([
      { kind: "run", from: 0, to: 100, attempt: 1, failed: true },
      { kind: "backoff", from: 100, to: 1100 },
      { kind: "run", from: 1100, to: 1500, attempt: 2, failed: false },
    ]);
    const pausing = segments(step("step", 0, null, { attempts, state: "retrying" } as Partial<Step>), 500);
    expect(pausing.map((one) => [one.kind, one.to - one.from])).toEqual([["run", 100], ["backoff", 400]]);
  });
  it("has no negative piece, whatever the clocks say", () => {
    const attempts = [{ number: 1, began_at: at(900), failed_at: at(100), next_at: at(50), error: { message: "", detail: {} } }];
    for (const one of [step("step", 1000, 500), step("sleep", 1000, 500), step("step", 1000, 1200, { attempts } as Partial<Step>), step("step", 5000, null)]) {
      for (const piece of segments(one, 2000)) expect(piece.to).toBeGreaterThanOrEqual(piece.from);
    }
  });
  it("finds stretches in which nothing runs, if they are long", () => {
    const busy = [{ from: 0, to: 1000 }, { from: 500, to: 2000 }, { from: HOUR, to: HOUR + 2000 }];
    expect(idle(busy, 0, HOUR + 2000)).toEqual([{ from: 2000, to: HOUR }]);
    expect(idle(busy.slice(0, 2), 0, 2900)).toEqual([]);
    expect(idle([], 0, HOUR)).toEqual([]);
  });
  it("draws a long wait as a narrow band and gives the room to the work", () => {
    const steps = [step("step", 0, 1000), step("event", 1000, HOUR), step("step", HOUR, HOUR + 1000)];
    const narrow = wholeScale(steps, 0, HOUR + 1000, 1028, true, new Set());
    expect(narrow.bands).toHaveLength(1);
    expect(narrow.bands[0]!.width).toBe(BAND);
    expect(narrow.x(1000)).toBeCloseTo(500);
    expect(narrow.x(HOUR)).toBeCloseTo(528);
    expect(narrow.x(HOUR + 1000)).toBeCloseTo(1028);
    const wide = wholeScale(steps, 0, HOUR + 1000, 1028, false, new Set());
    expect(wide.bands).toHaveLength(0);
    expect(styled(wide, 0, 1000, false).width).toBe("3px");
    const opened = wholeScale(steps, 0, HOUR + 1000, 1028, true, new Set([1000]));
    expect([opened.bands, opened.opened]).toEqual([[], [{ from: 1000, to: HOUR }]]);
  });
  it("never runs backwards", () => {
    const one = scale(0, 100_000, [{ from: 1000, to: 40_000 }, { from: 50_000, to: 90_000 }], 500);
    let last = -1;
    for (let time = -10; time <= 100_010; time += 500) {
      expect(one.x(time)).toBeGreaterThanOrEqual(last);
      last = one.x(time);
    }
    expect(one.x(100_000)).toBeCloseTo(500);
    expect(ticks(one).every((time) => !one.bands.some((band) => time > band.from && time < band.to))).toBe(true);
  });
  it("says nothing twice along the axis, and nothing where a band says how long it is", () => {
    const steps = [step("step", 0, 200), step("sleep", 200, HOUR), step("step", HOUR, HOUR + 200), step("sleep", HOUR + 200, 2 * HOUR), step("step", 2 * HOUR, 2 * HOUR + 200)];
    const whole = wholeScale(steps, 0, 2 * HOUR + 200, 600, true, new Set());
    expect(whole.bands).toHaveLength(2);
    const shown = labels(whole, 0).filter(([, label]) => label);
    expect(shown[0]).toEqual([0, "0"]);
    expect(shown.length).toBeGreaterThan(2);
    expect(new Set(shown.map(([, label]) => label)).size).toBe(shown.length);
    for (const [time, label] of shown) for (const band of whole.bands) expect(whole.x(time) > band.left + band.width / 2 || whole.x(time) + 6 * label.length < band.left + band.width / 2).toBe(true);
  });
  it("leaves the length of an idle stretch away where there is no room for it, and keeps a place for each of them", () => {
    const minutes = [9, 30, 2, 15, 8, 20];
    const gaps = minutes.map((long, nth) => ({ from: nth * HOUR, to: nth * HOUR + long * 60_000 }));
    const end = 6 * HOUR;
    for (const width of [120, 190, 320, 900]) {
      const all = named(scale(0, end, gaps, width));
      expect(all.map((one) => one.gap.from)).toEqual(gaps.map((gap) => gap.from));
      expect(all.some((one) => one.text), String(width)).toBe(width > 120);
      for (const one of all) {
        expect(one.width).toBeGreaterThanOrEqual(Math.min(10, one.gap.width));
        for (const other of all) expect(one === other || one.left >= other.left + other.width - 0.01 || other.left >= one.left + one.width - 0.01, `${width}: ${one.text} beside ${other.text}`).toBe(true);
      }
    }
    // The longest is said before others are.
    expect(named(scale(0, end, gaps, 190)).filter((one) => one.text)[0]!.text).toBe("30 min");
    expect(named(scale(0, end, gaps, 900)).map((one) => one.text)).toEqual(minutes.map((long) => `${long} min`));
    const open = { ...scale(0, end, gaps.slice(1), 900), opened: gaps.slice(0, 1) };
    expect(named(open)[0]).toMatchObject({ text: "› 9 min ‹", isOpen: true });
  });
  it("shows a stretch alone, and knows which time a pixel is", () => {
    const steps = [step("step", 0, 1000), step("event", 1000, HOUR), step("step", HOUR, HOUR + 1000)];
    const part = wholeScale(steps, 200, 800, 600, true, new Set(), HOUR + 1000);
    expect(part.bands).toHaveLength(0);
    expect(bars(steps[0]!, part, HOUR + 1000).map((one) => styled(part, one.from, one.to, false))).toEqual([{ left: "min(0px, 597px)", width: "600px" }]);
    expect(bars(steps[2]!, part, HOUR + 1000)).toEqual([]);
    const whole = wholeScale(steps, 0, HOUR + 1000, 1028, true, new Set());
    for (const time of [0, 300, 1000, HOUR, HOUR + 700]) expect(whole.time(whole.x(time))).toBeCloseTo(time, 0);
  });
  it("places 10,000 steps by the rows that are shown", () => {
    const steps = Array.from({ length: 10_000 }, (_, i) => step("step", i * 100, i * 100 + 90));
    const whole = wholeScale(steps, 0, 1_000_000, 800, true, new Set());
    let looked = 0;
    const watched = steps.map((one) => new Proxy(one, { get: (of, name) => (name === "began_at" && looked++, Reflect.get(of, name)) }));
    const shown = watched.slice(5000, 5040).map((one) => bars(one, whole, 1_000_000));
    expect(shown).toHaveLength(40);
    expect(looked).toBe(40);
  });
  it("has round times after the beginning of the run, also of a stretch of it", () => {
    const part = scale(1043, 1343, [], 540);
    expect(labels(part, 1000).map(([, label]) => label)).toEqual(["+50 ms", "+100 ms", "+150 ms", "+200 ms", "+250 ms", "+300 ms"]);
  });
  it("moves by one number while the right edge is now, and stands where it would be drawn a moment later", () => {
    const steps = [step("step", 0, 1000), step("sleep", 1000, 9000), step("step", 9000, null)];
    const [before, after] = [10_000, 11_500].map((now) => wholeScale(steps, 0, now, 1028, true, new Set(), now));
    const k = shrunk(before!, 1500);
    for (const time of [0, 500, 1000, 5000, 9000]) {
      const { elastic, fixed } = before!.place(time);
      expect(elastic * k + fixed).toBeCloseTo(after!.x(time));
    }
    expect(shrunk(before!, -50)).toBe(1);
    expect(styled(before!, 9000, 10_000, true)).toEqual({ left: "min(var(--k) * 500px + 28px, 1025px)", width: "max(1000px - var(--k) * 500px, 3px)" });
    expect(styled(before!, 0, 1000, true).width).toBe("max(var(--k) * 500px + 0px, 3px)");
  });
  it("knows when there is nothing to move", () => {
    const attempts = [{ number: 1, began_at: at(0), failed_at: at(100), next_at: at(5000), error: { message: "no", detail: {} } }];
    expect(isBusy([step("step", 0, null)], 50)).toBe(true);
    expect(isBusy([step("step", 0, 20), step("event", 20, null), step("sleep", 20, null)], 50)).toBe(false);
    const failed = step("step", 0, null, { attempts, state: "retrying" } as Partial<Step>);
    expect([isBusy([failed], 2000), isBusy([failed], 6000)]).toEqual([false, true]);
  });
  it("does not take for idle what a run in hand has not recorded yet", () => {
    const steps = [step("step", 0, 1000), step("event", 1000, HOUR)];
    const now = HOUR + 9000;
    expect(working("running", steps, now)).toEqual({ from: HOUR, to: now });
    expect([working("waiting", steps, now), working("running", [], now)]).toEqual([undefined, undefined]);
    expect(wholeScale(steps, 0, now, 600, true, new Set(), now, working("running", steps, now)).bands.map((band) => band.to)).toEqual([HOUR]);
    expect(shares(steps, 0, now, now, { is: "running" })).toEqual({ ...NONE, running: 10_000, waiting: HOUR - 1000 });
  });
  it("draws a whole run in little room, however many steps it has", () => {
    const steps = Array.from({ length: 10_000 }, (_, i) => step("step", i * 100, i * 100 + 90, i === 5000 ? { state: "failed" } : {}));
    const drawn = outline(steps, wholeScale(steps, 0, 1_000_000, 600, false, new Set()), 1_000_000);
    expect(drawn).toEqual([{ left: 0, width: 300, failed: false }, { left: 300, width: 2, failed: true }, { left: 302, width: 298, failed: false }]);
    expect(outline([step("event", 0, 50)], scale(0, 50, [], 600), 50)).toEqual([]);
  });
  it("says what the time was spent on, and forgets no millisecond", () => {
    const error = { message: "no", detail: {} };
    const attempts = [{ number: 1, began_at: at(100), failed_at: at(200), next_at: at(700), error }];
    const steps = [step("step", 100, 900, { attempts } as never), step("event", 900, 1900), step("child", 1900, 2400), step("step", 2300, 2500)];
    expect(shares(steps, 0, 2600, 2600)).toEqual({ ...NONE, queued: 100, running: 500, waiting: 1400, backoff: 500, between: 100 });
    expect(shares([], 0, 50, 50)).toEqual({ ...NONE, queued: 50 });
    expect(shares([step("step", 0, null)], 10, 0, 5)).toEqual(NONE);
  });
  it("does not say of a run that stands still that it was in line since then", () => {
    const steps = [step("step", 100, 200), step("step", 300, 400)];
    expect(shares(steps, 0, 9000, 9000, { is: "still" })).toEqual({ ...NONE, queued: 100, running: 200, between: 100, still: 8600 });
    expect(shares(steps, 0, 9000, 9000)).toEqual({ ...NONE, queued: 100, running: 200, between: 8700 });
    expect(shares([], 0, 50, 50, { is: "still" })).toEqual({ ...NONE, still: 50 });
    // What waits while it is paused waits, unless it is known since when it is.
    expect(shares([step("event", 100, null)], 0, 500, 500, { is: "still" })).toEqual({ ...NONE, queued: 100, waiting: 400 });
    expect(shares([step("event", 100, null)], 0, 500, 500, { is: "still", since: 300 })).toEqual({ ...NONE, queued: 100, waiting: 200, still: 200 });
    expect(shares([step("step", 100, 400)], 0, 500, 500, { is: "still", since: 300 })).toEqual({ ...NONE, queued: 100, running: 300, still: 100 });
    expect(shares([step("event", 100, null)], 0, 500, 500, { since: 300 })).toEqual({ ...NONE, queued: 100, waiting: 400 });
  });
  it("stands in line until a node takes it, where that is known", () => {
    const found = { ...NONE, queued: 400, running: 100 };
    expect(taken(found, 0, 500, 150, false)).toEqual({ ...NONE, queued: 150, between: 250, running: 100, all: 0 });
    expect(taken(found, 0, 500, null, false)).toEqual({ ...found, all: 0 });
    expect(taken({ ...NONE, queued: 500 }, 0, 500, 150, true)).toEqual({ ...NONE, queued: 150, running: 350, all: 0 });
    expect(taken({ ...NONE, queued: 500 }, 0, 500, null, true)).toEqual({ ...NONE, all: 500 });
    expect(taken({ ...NONE, queued: 500 }, 0, 500, 900, true)).toEqual({ ...NONE, queued: 500, all: 0 });
    expect(taken(found, 0, 500, 150, false, 100)).toEqual({ ...NONE, later: 100, queued: 50, between: 250, running: 100, all: 0 });
    expect(taken(found, 0, 500, 150, false, 900)).toEqual({ ...NONE, later: 150, between: 250, running: 100, all: 0 });
    expect(taken(found, 0, 500, 150, false, -900)).toEqual({ ...NONE, queued: 150, between: 250, running: 100, all: 0 });
  });
});
