// Runs that stand still until somebody does something: blocked ones, by what they lack, and those whose undo gave up.
import { queryOptions } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { LOOK } from "./first";
import { counted } from "./number";
import type { Run } from "./state";

/// So many are looked at: whoever has more of them has to look at the list.
export const MOST = 200;
const EVERY = 10_000;

type Stopped = Pick<Run, "status" | "queue" | "unserved">;

export interface Stand {
  /// How many are blocked because no node serves their queue, by the queue.
  unserved: Map<string, number>;
  /// How many are blocked for another reason.
  blocked: number;
  undoFailed: number;
}

export function standing(runs: Stopped[]): Stand {
  const unserved = new Map<string, number>();
  for (const run of runs.filter((run) => run.unserved)) unserved.set(run.queue, (unserved.get(run.queue) ?? 0) + 1);
  return {
    unserved,
    blocked: runs.filter((run) => run.status === "blocked" && !run.unserved).length,
    undoFailed: runs.filter((run) => run.status === "undo_failed").length,
  };
}

/// How they are asked for.
export function stopped() {
  return queryOptions({
    queryKey: [LOOK, "stopped"],
    queryFn: async ({ signal }) => standing((await data(api.GET("/api/v1/runs", { params: { query: { status: ["blocked", "undo_failed"], limit: MOST } as never }, signal }))).items),
    refetchInterval: EVERY,
    retry: false,
  });
}

/// So many runs, as people say it.
export function many(count: number): string {
  return count === 1 ? "1 run" : `${counted(count)}${count >= MOST ? " or more" : ""} runs`;
}
