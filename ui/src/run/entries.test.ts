import { describe, expect, it } from "vitest";
import type { Schemas } from "../api/client";
import { laterEntries, PAGE } from "./entries";

const entry = (pos: number, name = `entry ${pos}`) => ({ pos, name, op: "step", phase: "done", at: "2026-01-01T00:00:00Z", body: null }) as Schemas["Entry"];
const upTo = (size: number, from = 1) => Array.from({ length: size - from + 1 }, (_, nth) => entry(from + nth));

/// A journal as the API pages it, and behind what it was asked.
function journal(entries: Schemas["Entry"][]) {
  const asked: number[] = [];
  const page = async (after: number) => {
    asked.push(after);
    const items = entries.filter((one) => one.pos > after).slice(0, PAGE);
    return { items, next_after: items.length === PAGE ? items.at(-1)!.pos : null };
  };
  return { page, asked };
}

describe("the history of a run", () => {
  it("comes page by page, as far as somebody wants it", async () => {
    const { page, asked } = journal(upTo(1200));
    const first = await laterEntries(undefined, page);
    expect([first.entries.length, first.isAll, asked]).toEqual([500, false, [0]]);
    const next = await laterEntries(first, page, 501);
    expect([next.entries.length, next.isAll]).toEqual([999, false]);
    expect(await laterEntries(next, page, 1000)).toEqual({ entries: upTo(1200), isAll: true });
    expect(asked).toEqual([0, 499, 998]);
  });
  it("is not asked for at all while there is more than somebody wants, however much happens", async () => {
    const first = await laterEntries(undefined, journal(upTo(1200)).page);
    const { page, asked } = journal(upTo(1201));
    expect(await laterEntries(first, page)).toBe(first);
    expect(asked).toEqual([]);
  });
  it("has what is new behind its end, without what was there before", async () => {
    const known = await laterEntries(undefined, journal(upTo(1200)).page, Infinity);
    const { page, asked } = journal(upTo(1203));
    expect(await laterEntries(known, page)).toEqual({ entries: upTo(1203), isAll: true });
    expect(asked).toEqual([1199]);
    // Where nothing is new nothing is another.
    expect(await laterEntries(known, journal(upTo(1200)).page)).toBe(known);
    const full = await laterEntries(undefined, journal(upTo(500)).page, Infinity);
    expect(full).toEqual({ entries: upTo(500), isAll: true });
    expect(await laterEntries(full, journal(upTo(501)).page)).toEqual({ entries: upTo(501), isAll: true });
  });
  it("is empty until something is recorded", async () => {
    const none = await laterEntries(undefined, journal([]).page);
    expect(none).toEqual({ entries: [], isAll: true });
    expect((await laterEntries(none, journal(upTo(2)).page)).entries).toEqual(upTo(2));
  });
  it("has what was recorded late before its end", async () => {
    const early = upTo(1200).filter(({ pos }) => pos !== 1190 && pos !== 1191);
    const known = await laterEntries(undefined, journal(early).page, Infinity);
    const { page, asked } = journal(upTo(1205));
    expect(await laterEntries(known, page)).toEqual({ entries: upTo(1205), isAll: true });
    expect(asked).toEqual([1188]);
  });
  it("never has fewer than before, also where a gap is filled that is a page away", async () => {
    const early = upTo(1200).filter(({ pos }) => pos !== 702);
    const known = await laterEntries(undefined, journal(early).page, Infinity);
    const later = await laterEntries(known, journal(upTo(1400)).page);
    expect(later.entries.length).toBeGreaterThanOrEqual(known.entries.length);
    expect(later.entries).toEqual(upTo(later.entries.length));
  });
  it("begins anew where the run has thrown away what it had", async () => {
    const known = await laterEntries(undefined, journal(upTo(700)).page, Infinity);
    expect(await laterEntries(known, journal(upTo(703, 701)).page)).toEqual({ entries: upTo(703, 701), isAll: true });
    const others = [entry(700, "another"), entry(701)];
    expect(await laterEntries(known, journal(others).page)).toEqual({ entries: others, isAll: true });
  });
});
