import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { describe, expect, it, vi } from "vitest";
import type { Run } from "./state";

const GET = vi.hoisted(() => vi.fn());
vi.mock("../api/client", () => ({ api: { GET }, data: (answer: unknown) => answer }));
const { FAR, fewRuns, firstThat } = await import("./first");

/// A list of so many runs, of which some are `mine`.
function list(size: number, mine: (nth: number) => boolean) {
  const asked: number[] = [];
  const page = async (cursor: string | undefined, limit: number) => {
    const from = Number(cursor ?? 0);
    asked.push(limit);
    const items = Array.from({ length: Math.min(limit, size - from) }, (_, at) => ({ id: String(from + at), node: mine(from + at) ? "mine" : "other" }) as Run);
    return { items, next_cursor: from + limit < size ? String(from + limit) : null };
  };
  return { page, asked };
}
const isMine = (run: Run) => run.node === "mine";

describe("the first runs that fit", () => {
  it("are found behind the first page", async () => {
    const { page } = list(700, (nth) => nth === 650);
    expect(await firstThat(isMine, 10, page)).toMatchObject({ found: [{ id: "650" }], isAll: true });
  });
  it("are no more than wanted, and no more is asked for", async () => {
    const { page, asked } = list(700, () => true);
    expect((await firstThat(undefined, 10, page)).found).toHaveLength(10);
    expect(asked).toEqual([10]);
  });
  it("are looked for up to a bound, which is said", async () => {
    const { page } = list(100_000, () => false);
    expect(await firstThat(isMine, 10, page)).toEqual({ found: [], looked: FAR, isAll: false });
  });
});

describe("a look at many runs", () => {
  const keep = { what: "mine", has: isMine };
  it("is not begun again because a run changed; one at few is", async () => {
    const client = new QueryClient();
    for (const [few, asked] of [[fewRuns({ def: "a" }, 10, keep), 1], [fewRuns({ def: "a" }, 10), 2]] as const) {
      GET.mockReset().mockResolvedValue({ items: [], next_cursor: null });
      const stop = new QueryObserver(client, few).subscribe(() => {});
      await client.refetchQueries({ queryKey: few.queryKey }, { cancelRefetch: false });
      await client.invalidateQueries({ queryKey: ["runs"] });
      expect(GET).toHaveBeenCalledTimes(asked);
      stop();
    }
  });
  it("ends when nobody waits for it any more", () => {
    GET.mockReset().mockReturnValue(new Promise(() => {}));
    new QueryObserver(new QueryClient(), fewRuns({}, 10, keep)).subscribe(() => {})();
    const { signal } = GET.mock.calls[0]![1] as { signal: AbortSignal };
    expect(signal.aborted).toBe(true);
  });
  it("is another one for another thing", () => {
    const keyOf = (what: string) => fewRuns({ status: "failed" }, 10, { ...keep, what }).queryKey;
    expect(keyOf("node a")).not.toEqual(keyOf("node b"));
  });
});
