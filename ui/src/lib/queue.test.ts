import { expect, it } from "vitest";
import { waiting } from "./queue";

it("counts those that wait until a time at most among those that wait, and not those that are to begin later", () => {
  expect(waiting({ waiting: 1, later: 5, scheduled: 2 })).toBe(4);
  expect(waiting({ waiting: 0, later: 3, scheduled: 3 })).toBe(0);
});
