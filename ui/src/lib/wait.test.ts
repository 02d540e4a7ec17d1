import { expect, it } from "vitest";
import { waiting, type WaitingFor } from "./wait";

const since = "2026-11-17T10:00:00Z";
const now = Date.parse(since) + 300_000;

it("says for what a run waits, and since when", () => {
  const said = (wait: Partial<WaitingFor>) => waiting({ name: "approval", since, ...wait } as WaitingFor, now);
  expect(said({ on: "event" })).toEqual({ short: "5 min for event approval", whole: "waiting for event approval since 5 min" });
  expect(said({ on: "promise" }).short).toBe("5 min for promise approval");
  expect(said({ on: "child", name: "mail" }).short).toBe("5 min for run mail");
  expect(said({ on: "sleep", name: "night" }).short).toBe("5 min for timer night");
  expect(said({ on: "retry", name: "charge", attempt: 3 }).whole).toBe("waiting for attempt 3 of charge since 5 min");
  expect(said({ on: "stop" }).whole).toBe("waiting for the request to stop since 5 min");
});

it("says nothing negative where the server's clock is ahead", () => {
  expect(waiting({ on: "event", name: "x", since } as WaitingFor, now - 600_000).short).toBe("0 ms for event x");
});
