import { expect, it } from "vitest";
import { counted } from "./number";

it("says whole numbers as the browser would", () => {
  for (const count of [0, 7, 999, 1000, 12_345, 100_000, 1_234_567, -1234]) expect(counted(count)).toBe(count.toLocaleString("en"));
});
