// What the numbers of a queue say: the API tells what is due now or later, whatever it is due for.
import type { Schemas } from "../api/client";

/// How many of a queue wait: also those that wait until a time at most, and those that are paused, blocked or half undone.
export function waiting({ waiting, later, scheduled }: Pick<Schemas["Queue"], "waiting" | "later" | "scheduled">): number {
  return waiting + later - scheduled;
}
