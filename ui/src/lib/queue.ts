// What the numbers of a queue say: the API tells what is due now or later, whatever it is due for.
import type { Schemas } from "../api/client";
import { counted } from "./number";

/// How many of a queue wait: also those that wait until a time at most, and those that are paused, blocked or half undone.
export function waiting({ waiting, later, scheduled }: Pick<Schemas["Queue"], "waiting" | "later" | "scheduled">): number {
  return waiting + later - scheduled;
}

/// What becomes of what is in a queue that is held, and of what comes: also where nobody waits in it yet.
export function held({ state, due }: Pick<Schemas["Queue"], "state" | "due">): string | undefined {
  if (state === "open") return undefined;
  const after = state === "draining" ? "What was in it is worked off. " : "";
  if (!due) return `${after}Nothing is due in it now: runs that come stay in line until it is resumed.`;
  return after ? `${after}Runs that come stay in line until it is resumed.` : `${counted(due)} due ${due === 1 ? "run stays" : "runs stay"} in line until it is resumed, and so do those that come.`;
}
