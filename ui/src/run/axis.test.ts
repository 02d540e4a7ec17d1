import { expect, it, vi } from "vitest";
import { pulled } from "./Axis";

vi.mock("../lib/zone", () => ({ useUtc: () => true }));

it("chooses what is shown by either edge, by both, or anew", () => {
  const pull = (grip: "new" | "first" | "last" | "both", start: number, x: number) => pulled({ grip, start, before: [100, 300], now: [100, 300] }, x, 600);
  expect([pull("first", 100, 40), pull("first", 100, 500), pull("first", 100, -9)]).toEqual([[40, 300], [296, 300], [0, 300]]);
  expect([pull("last", 300, 450), pull("last", 300, 20), pull("last", 300, 900)]).toEqual([[100, 450], [100, 104], [100, 600]]);
  expect([pull("both", 200, 260), pull("both", 200, 0), pull("both", 200, 600)]).toEqual([[160, 360], [0, 200], [400, 600]]);
  expect([pull("new", 400, 500), pull("new", 400, 350)]).toEqual([[400, 500], [350, 400]]);
});
