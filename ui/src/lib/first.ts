// The first runs of a list that the API cannot narrow far enough: page by page, up to a bound, and honest about that.
import { queryOptions } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { Run } from "./state";

/// So often is looked through a list again.
const AGAIN = 5000;
/// What such queries begin with. They are none of "runs": runs change more often than many of them can be looked at.
export const LOOK = "look";

const PAGE = 200;
/// How many are looked at, in so many answers at most: what is further back is for the list of runs.
export const FAR = 2000;
const ANSWERS = 20;

interface Page {
  items: Run[];
  next_cursor?: string | null;
}

/// Which runs are wanted, where the API cannot say it. `what` tells one such look from others at the same list.
export interface Keep {
  what: string;
  has: (run: Run) => boolean;
}

export interface Found {
  found: Run[];
  looked: number;
  /// Whether there are no others behind those that were looked at.
  isAll: boolean;
}

/// The first so many that `keep` takes.
export async function firstThat(keep: ((run: Run) => boolean) | undefined, wanted: number, page: (cursor: string | undefined, limit: number) => Promise<Page>): Promise<Found> {
  const found: Run[] = [];
  let [looked, cursor]: [number, string | undefined] = [0, undefined];
  for (let answers = 1; ; answers++) {
    const { items, next_cursor: next } = await page(cursor, keep ? PAGE : wanted);
    found.push(...items.filter(keep ?? (() => true)));
    looked += items.length;
    cursor = next ?? undefined;
    if (!cursor || found.length >= wanted || looked >= FAR || answers >= ANSWERS) return { found: found.slice(0, wanted), looked, isAll: !cursor };
  }
}

/// How a few runs are asked for: live where one answer has them, every so often where many have to be looked through.
export function fewRuns(search: Record<string, unknown>, wanted: number, keep?: Keep) {
  return queryOptions({
    queryKey: [keep ? LOOK : "runs", "few", search, wanted, keep?.what],
    queryFn: ({ signal }) => firstThat(keep?.has, wanted, (cursor, limit) => data(api.GET("/api/v1/runs", { params: { query: { ...search, limit, cursor } as never }, signal }))),
    ...(keep && { refetchInterval: AGAIN, staleTime: AGAIN }),
    // Runs of another thing are not these.
    placeholderData: undefined,
  });
}
