// The steps of a run. A long one comes in pieces: its first and last steps at once, the rest as it comes.
import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { BRIEF } from "../lib/payload";
import type { Step } from "../lib/state";

/// What is shown first of a long run, at either end, and how much is asked for at once afterwards.
const ENDS = 200;
const PIECE = 10_000;

export interface Steps {
  items: Step[];
  /// More than there are items while some are on their way.
  total: number;
}

interface Page extends Steps {
  next_after?: number | null;
}

/// All steps. `show` gets the ends of a long run before the rest has come; without it nobody waits for them, and little is asked.
export async function allSteps(page: (after: number, limit: number) => Promise<Page>, show?: (steps: Steps) => void): Promise<Steps> {
  const first = await page(0, show ? ENDS : PIECE);
  if (show && first.next_after != null) {
    const end = await page(Math.max(first.next_after, first.total - ENDS), ENDS);
    show({ items: [...first.items, ...end.items], total: end.total });
  }
  const items = [...first.items];
  for (let after: number | null | undefined = first.next_after; after != null; ) {
    const next: Page = await page(after, PIECE);
    items.push(...next.items);
    after = next.next_after;
  }
  return { items, total: items.length };
}

/// How the steps of a run are asked for.
export function stepsOf(id: string) {
  const queryKey = ["run", id, "steps"] as const;
  return queryOptions({
    queryKey,
    queryFn: ({ signal, client }: { signal: AbortSignal; client: QueryClient }) =>
      allSteps(
        (after, limit) => data(api.GET("/api/v1/runs/{id}/steps", { params: { path: { id }, query: { after, limit, preview: BRIEF } }, signal })),
        // What is there already is more than the ends.
        client.getQueryData(queryKey) ? undefined : (steps) => client.setQueryData(queryKey, steps as never),
      ),
    placeholderData: undefined,
  });
}
