import { expect, it } from "vitest";
import { held, waiting } from "./queue";

it("counts those that wait until a time at most among those that wait, and not those that are to begin later", () => {
  expect(waiting({ waiting: 1, later: 5, scheduled: 2 })).toBe(4);
  expect(waiting({ waiting: 0, later: 3, scheduled: 3 })).toBe(0);
});

it("says of a queue that is held that what comes waits, also where nothing is due", () => {
  expect(held({ state: "open", due: 3 })).toBeUndefined();
  expect(held({ state: "paused", due: 0 })).toBe("Nothing is due in it now: runs that come stay in line until it is resumed.");
  expect(held({ state: "paused", due: 1 })).toBe("1 due run stays in line until it is resumed, and so do those that come.");
  expect(held({ state: "paused", due: 1200 })).toBe("1,200 due runs stay in line until it is resumed, and so do those that come.");
  expect(held({ state: "draining", due: 2 })).toBe("What was in it is worked off. Runs that come stay in line until it is resumed.");
});
