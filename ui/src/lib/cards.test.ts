import { expect, it } from "vitest";
import { later, upTo } from "./cards";

it("tells what is due from what comes later, as far as that is known", () => {
  expect([later({ queued: 3, scheduled: 0 }), later({ queued: 0, scheduled: 1200 }), later({ queued: 3, scheduled: 5 })]).toEqual([undefined, "and 1,200 later", "and 5 later"]);
  // Of one tenant alone it is not.
  expect([later({ queued: 3, scheduled: null }), later({ queued: 0, scheduled: null })]).toEqual(["with those due later", undefined]);
});

it("says that there are more than were counted", () => {
  expect([upTo(9999), upTo(10_000)]).toEqual(["9,999", "10k+"]);
  expect([later({ queued: 3, scheduled: 9997 }), later({ queued: 10_000, scheduled: 0 })]).toEqual(["and 9,997+ later", undefined]);
});
