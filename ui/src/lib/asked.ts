// What people did to a queue or a schedule, and who of them holds it back: without a browser, so that it can be tested.
import type { Schemas } from "../api/client";
import { millis } from "./time";

type Action = Schemas["Action"];

/// A line is written right after what it tells of. What stands this much later told of nothing new.
const SOON = 60_000;

/// Who brought something into the state that `act` brings about, of the actions that people did, the last first; `others` end that state.
///
/// Whoever pauses what is paused changes nothing: it is the first of them. Where it is known since when it is so (`since`), it is whoever did
/// it then: code can do it too, and nobody notes that.
export function holder(actions: Action[], act: string, others: string[], since?: string | null): Action | undefined {
  const from = millis(since);
  let found: Action | undefined;
  for (const action of actions) {
    if (action.status >= 400) continue;
    if (others.includes(action.action) || (from !== null && (millis(action.at) ?? 0) < from)) break;
    if (action.action === act) found = action;
  }
  return found && from !== null && (millis(found.at) ?? 0) - from > SOON ? undefined : found;
}

const DID: Record<string, string> = {
  pause: "paused it", resume: "resumed it", drain: "drains it", limit: "set its limits", reset: "went back to the limits that code says", set: "set it", delete: "deleted it", trigger: "started a run of it",
  backfill: "started runs for times in the past",
};

/// What somebody did, in words; or tried to do.
export function did({ action, status }: Pick<Action, "action" | "status">): string {
  const act = action.replace(/^\w+\./, "");
  return status < 400 ? (DID[act] ?? act.replaceAll("_", " ")) : `was refused: ${act.replaceAll("_", " ")}`;
}
