// What a run waits for, in few words: a list has no room for the sentence of `explain`.
import type { Run } from "./state";
import { between, duration, millis } from "./time";

export type WaitingFor = NonNullable<Run["waiting_for"]>;

/// What has to happen.
export function awaited(wait: WaitingFor): string {
  switch (wait.on) {
    case "event":
    case "promise":
      return `${wait.on} ${wait.name}`;
    case "child":
      return `run ${wait.name}`;
    case "sleep":
      return `timer ${wait.name}`;
    case "retry":
      return `attempt ${wait.attempt ?? ""} of ${wait.name}`.replace("  ", " ");
    default:
      return "the request to stop";
  }
}

/// For how long it has waited and for what, and the same as a whole sentence. What is cut off where there is no room is the name.
export function waiting(wait: WaitingFor, now: number): { short: string; whole: string } {
  const long = duration(between(millis(wait.since) ?? now, now));
  return { short: `${long} for ${awaited(wait)}`, whole: `waiting for ${awaited(wait)} since ${long}` };
}
