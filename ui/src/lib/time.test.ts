import { describe, expect, it } from "vitest";
import { about, absolute, between, clock, coarse, duration, fieldTime, inZone, isSame, noteServerDate, readable, relative, serverNow, skewNow, timeField } from "./time";

describe("durations", () => {
  it("are never negative", () => {
    for (const span of [-1, -5000, -1e12, Number.MIN_VALUE * -1]) expect(duration(span)).toBe("0 ms");
    expect(between(10, 5)).toBe(0);
    expect(between(5, 10)).toBe(5);
  });
  it("have at most two units and do not roll over", () => {
    const cases: [number, string][] = [
      [0, "0 ms"], [0.4, "<1 ms"], [350, "350 ms"], [999.6, "1 s"], [4200, "4.2 s"], [9960, "10 s"], [59_960, "1 min"],
      [200_000, "3 min 20 s"], [3_600_000, "1 h"], [7_500_000, "2 h 5 min"], [345_600_000, "4 d"],
    ];
    for (const [span, text] of cases) expect(duration(span)).toBe(text);
  });
  it("say that they are known about, where sums know them", () => {
    expect([about(4200), about(0.4), about(0)]).toEqual(["≈ 4.2 s", "<1 ms", "0 ms"]);
  });
  it("say which side of now a time is", () => {
    expect(relative(0, 5000)).toBe("5 s ago");
    expect(relative(5000, 0)).toBe("in 5 s");
    expect(relative(0, 10)).toBe("now");
  });
  it("follow the server's clock only where it is off", () => {
    noteServerDate(new Date(Date.now() + 60_000).toUTCString());
    expect(serverNow() - Date.now()).toBeGreaterThan(55_000);
    noteServerDate(new Date().toUTCString());
    expect(Math.abs(serverNow() - Date.now())).toBeLessThan(5);
  });
  it("find a clock that is off by little more than a second, from answers that have whole seconds", () => {
    const said = (server: number) => new Date(Math.floor(server / 1000) * 1000).toUTCString();
    const hear = (off: number, from: number) => {
      for (let at = from; at < from + 20_000; at += 730) noteServerDate(said(at + 50 + off), at, at + 100);
      return skewNow();
    };
    expect(hear(900, 1_000_000)).toBe(0);
    expect(Math.abs(hear(1500, 2_000_000) - 1500)).toBeLessThan(150);
    expect(Math.abs(hear(-1500, 3_000_000) + 1500)).toBeLessThan(150);
    expect(hear(-900, 4_000_000)).toBe(0);
  });
  it("are not corrected by an answer that took long", () => {
    noteServerDate(new Date(5_000_000).toUTCString(), 5_000_000, 5_000_100);
    noteServerDate(new Date(5_010_000).toUTCString(), 5_001_000, 5_030_000);
    expect(skewNow()).toBe(0);
  });
  it("are said once in a sentence, even if the server says them twice", () => {
    const now = Date.parse("2026-11-16T12:00:00Z");
    const twice = readable("waiting for event approval (since 2026-11-16T12:00:00Z, until 2026-11-16T13:00:00Z), until 2026-11-16T13:00:00Z", now);
    expect(twice.match(/until/g)).toHaveLength(1);
    expect(twice).not.toContain("Z");
    expect(readable("waiting for event a until 2026-11-16T13:00:00Z or promise b, until 2026-11-16T14:00:00Z", now).match(/until/g)).toHaveLength(2);
  });
});

describe("zones", () => {
  const time = Date.parse("2027-03-14T23:30:00Z");
  it("are kept to, also where the day is another one there", () => {
    expect(clock(time, time, true)).toBe("23:30:00");
    expect(clock(time, time + 3_600_000, true)).toBe("14 Mar 23:30:00");
    expect(readable("due at 2027-03-14T23:30:00Z", time, true)).toBe("due at 23:30:00");
    expect(absolute(time, true)).toBe("14 Mar 2027, 23:30:00.000 UTC");
    expect(inZone(time, "Asia/Tokyo")).toBe("15 Mar 2027, 08:30:00 Asia/Tokyo");
    expect(inZone(time, "Nowhere/Atlantis")).toBeNull();
    expect(["UTC", "Africa/Abidjan", "Asia/Tokyo", "Nowhere/Atlantis"].map((zone) => isSame(time, zone, true))).toEqual([true, true, false, false]);
    expect(isSame(time, new Intl.DateTimeFormat().resolvedOptions().timeZone, false)).toBe(true);
  });
});

describe("times that are written without the browser's formats", () => {
  it("read as with them, in UTC and here, in every month and on both sides of a change of clocks", () => {
    const wanted = (time: number, zone: string | undefined) => new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: zone }).format(time);
    for (let time = Date.parse("2026-01-01T00:30:15Z"); time < Date.parse("2028-01-01T00:00:00Z"); time += 5 * 3_600_000 + 17) {
      for (const utc of [true, false]) expect(absolute(time, utc).replace(/\.\d{3}( UTC)?$/, "")).toBe(wanted(time, utc ? "UTC" : undefined));
    }
  });
});

describe("fields for times", () => {
  it("give back the second that they were given, in either zone", () => {
    const time = Date.parse("2027-03-14T01:30:05.250Z");
    for (const utc of [true, false]) expect(fieldTime(timeField(time, utc), utc)).toBe(time - 250);
    expect(timeField(time, true)).toBe("2027-03-14T01:30:05");
  });
  it("say nothing where nothing is written", () => {
    expect([fieldTime("", true), fieldTime("", false)]).toEqual([null, null]);
  });
});

it("says in one unit how long something is, and never less than nothing", () => {
  expect([-5, 999, 90_000, 7_300_000, 200_000_000].map(coarse)).toEqual(["0 s", "0 s", "1 min", "2 h", "2 d"]);
});
