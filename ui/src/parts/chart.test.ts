import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Depth, type Point } from "./Chart";

vi.mock("../lib/zone", () => ({ useUtc: () => true }));

const drawn = (queued: (number | null)[]) => {
  const points: Point[] = queued.map((count, nth) => ({ at: new Date(nth * 60_000).toISOString(), completed: 0, failed: 0, cancelled: 0, queued: count }));
  return renderToStaticMarkup(createElement(Depth, { points }));
};

it("says that nothing was in line, or draws a line, and never both", () => {
  expect(drawn([0, 0, null])).toContain("nothing in this time");
  expect(drawn([0, 0, null])).not.toContain("<path");
  expect(drawn([0, 2, null])).toContain("<path");
  expect(drawn([0, 2, null])).not.toContain("nothing in this time");
});
