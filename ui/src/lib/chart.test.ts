import { describe, expect, it } from "vitest";
import { ceiling, fold, line, stacks, spansOf } from "./chart";

describe("charts", () => {
  it("end at numbers that people like to read, never below what they show", () => {
    expect([0, 0.4, 1, 3, 17, 99, 100, 101].map(ceiling)).toEqual([1, 0.5, 1, 5, 20, 100, 100, 200]);
    for (const value of [NaN, -5]) expect(ceiling(value)).toBe(1);
  });

  it("stack parts as shares of the tallest, and take nothing for less than nothing", () => {
    const { stacks: found, top } = stacks([[3, 1], [0, 0], [8, -2]]);
    expect(top).toBe(10);
    expect(found).toEqual([{ parts: [0.3, 0.1], total: 4 }, { parts: [0, 0], total: 0 }, { parts: [0.8, 0], total: 8 }]);
    expect(stacks([]).top).toBe(1);
  });

  it("add neighbours up where there is room for fewer, and lose nothing", () => {
    expect(fold([1, 2, 3, 4, 5], 3)).toEqual([3, 7, 5]);
    expect(fold([1, 2], 30)).toEqual([1, 2]);
    expect(fold([], 30)).toEqual([]);
  });

  it("draw no line where nothing was measured", () => {
    expect(line([null, null], 10)).toBe("");
    expect(line([5, null, 10], 10).match(/M/g)).toHaveLength(2);
    expect(line([5, 10], 10)).toBe("M15.00 50.00L25.00 50.00L75.00 0.00");
  });
});

describe("counts that came without times", () => {
  const now = Date.parse("2026-01-05T10:00:30Z");
  it("stand where the server counted them, from the minute in which the range began", () => {
    const { spans, step } = spansOf([1, 0, 2], 3 * 60_000, now);
    expect(step).toBe(60_000);
    expect(spans.map((span) => [new Date(span.at).toISOString().slice(11, 16), span.count])).toEqual([["09:57", 1], ["09:58", 0], ["09:59", 2], ["10:00", 0]]);
  });
  it("are at most thirty, however long the range", () => {
    const { spans, step } = spansOf(Array.from({ length: 30 }, () => 1), 86_400_000, now);
    expect(spans).toHaveLength(30);
    expect(spans.at(-1)!.at + step).toBeCloseTo(now, -3);
    expect(spansOf([], 3_600_000, now).spans.every((span) => span.count === 0)).toBe(true);
  });
});
