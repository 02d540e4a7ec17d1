// The steps of a run. A long one comes in pieces: its first and last steps at once, the rest as it comes. Of one that goes on only what may have
// changed is asked for again.
import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { write } from "../lib/json";
import { BRIEF } from "../lib/payload";
import { type Step, stepKey } from "../lib/state";

/// What is shown first of a long run, at either end, and how much is asked for at once afterwards.
export const ENDS = 200;
const PIECE = 10_000;

export interface Steps {
  items: Step[];
  /// More than there are items while some are on their way.
  total: number;
}

interface Page extends Steps {
  next_after?: number | null;
}

type Ask = (after: number, limit: number) => Promise<Page>;

/// All steps. `show` gets the ends of a long run before the rest has come; without it nobody waits for them, and little is asked.
export async function allSteps(page: Ask, show?: (steps: Steps) => void): Promise<Steps> {
  const first = await page(0, show ? ENDS : PIECE);
  if (show && first.next_after != null) {
    const end = await page(Math.max(first.next_after, first.total - ENDS), ENDS);
    show({ items: [...first.items, ...end.items], total: end.total });
  }
  const items = await toEnd(first, page);
  return { items, total: items.length };
}

/// What a page begins, with all that follows it.
async function toEnd(first: Page, page: Ask): Promise<Step[]> {
  const items = [...first.items];
  for (let after = first.next_after; after != null; ) {
    const next: Page = await page(after, PIECE);
    items.push(...next.items);
    after = next.next_after;
  }
  return items;
}

/// How many from the first on stay as they are for as long as nobody takes the run back. An undo that gave up is tried again in its place.
function settled(steps: Step[]): number {
  const stays = ({ op, state, ended_at: ended }: Step) => !!ended && (state === "completed" || (state === "failed" && op !== "undo"));
  const at = steps.findIndex((step) => !stays(step));
  return at < 0 ? steps.length : at;
}

/// All steps of a run of which some are known: those that stay are not asked for again. The last of them is, and has to be the same: a run that
/// was taken back, or began anew, did others since. Who has one tried again, or gives it another result, changes it where it stands, which a
/// step of its own tells of.
export async function laterSteps(known: Step[], page: Ask): Promise<Steps> {
  const last = settled(known) - 1;
  if (last < 0) return allSteps(page);
  const rest = await toEnd(await page(last, PIECE), page);
  const had = new Set(known.map(stepKey));
  const isSame = rest[0] !== undefined && write(rest[0]) === write(known[last]);
  if (!isSame || rest.some((step) => step.op === "revise" && !had.has(stepKey(step)))) return allSteps(page);
  const items = [...known.slice(0, last), ...rest];
  return { items, total: items.length };
}

/// How the steps of a run are asked for.
export function stepsOf(id: string) {
  const queryKey = ["run", id, "steps"] as const;
  return queryOptions({
    queryKey,
    queryFn: ({ signal, client }: { signal: AbortSignal; client: QueryClient }) => {
      const page: Ask = (after, limit) => data(api.GET("/api/v1/runs/{id}/steps", { params: { path: { id }, query: { after, limit, preview: BRIEF } }, signal }));
      const known = client.getQueryData<Steps>(queryKey);
      if (!known) return allSteps(page, (steps) => client.setQueryData(queryKey, steps as never));
      // What is there already is more than the ends; where it is the ends alone, it says nothing of what is between.
      return known.items.length === known.total ? laterSteps(known.items, page) : allSteps(page);
    },
    placeholderData: undefined,
  });
}
