import { InfiniteQueryObserver, QueryClient } from "@tanstack/react-query";
import { afterEach, describe, expect, it, vi } from "vitest";
import { askAgain } from "../app/again";
import { listOf, listWhile, seenPages } from "./list";

/// Cursors in the order in which they were asked for, "" being that of the first page.
const asked = vi.hoisted(() => [] as string[]);
vi.mock("../api/client", () => ({
  api: {
    GET: async (_: string, { params: { query } }: { params: { query: { cursor?: string } } }) => {
      asked.push(query.cursor ?? "");
      return { data: { items: [], next_cursor: String(Number(query.cursor ?? 0) + 1) } };
    },
  },
  data: async (call: Promise<{ data: unknown }>) => (await call).data,
}));
const taken = () => asked.splice(0);
afterEach(() => void taken());

/// A list of which somebody has seen three pages.
async function opened() {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: 2000 } } });
  const list = new InfiniteQueryObserver(client, listWhile(false, {}));
  const close = list.subscribe(() => {});
  const rests = () => vi.waitFor(() => expect(client.isFetching()).toBe(0));
  await rests();
  await list.fetchNextPage();
  await list.fetchNextPage();
  expect(taken()).toEqual(["", "1", "2"]);
  return { client, list, close, rests };
}

describe("a list", () => {
  it("is asked for again when something changes, with all its pages", async () => {
    const { client, close, rests } = await opened();
    askAgain(client, ["runs"]);
    await rests();
    expect(taken()).toEqual(["", "1", "2"]);
    close();
  });
  it("is not while its rows are held, and has a next page all the same", async () => {
    const { client, list, close, rests } = await opened();
    list.setOptions(listWhile(true, {}));
    for (let change = 0; change < 5; change++) askAgain(client, ["runs"]);
    expect([taken(), list.getCurrentResult().isFetching]).toEqual([[], false]);
    const next = list.fetchNextPage();
    askAgain(client, ["runs"]);
    expect((await next).data!.pages.length).toBe(4);
    await rests();
    expect(taken()).toEqual(["3"]);
    close();
  });
  it("begins anew with its first page when it is let go", async () => {
    const { client, list, close, rests } = await opened();
    const { queryKey } = listOf({});
    list.setOptions(listWhile(true, {}));
    client.setQueryData(queryKey, (all) => all && { pages: all.pages.slice(0, 1), pageParams: [""] });
    askAgain(client, queryKey);
    expect(taken()).toEqual([]);
    list.setOptions(listWhile(false, {}));
    await rests();
    expect([taken(), list.getCurrentResult().data!.pages.length]).toEqual([[""], 1]);
    close();
  });
  it("is asked for where nothing of it is there yet, whatever is held", async () => {
    const close = new InfiniteQueryObserver(new QueryClient(), listWhile(true, {})).subscribe(() => {});
    await vi.waitFor(() => expect(asked).toEqual([""]));
    close();
  });
});

describe("the pages that are seen", () => {
  /// Of three pages, the last of which is short: 250 rows of 36 pixels.
  const at = (scrollTop: number) => seenPages({ scrollTop, clientHeight: 720, scrollHeight: 9000 }, [100, 100, 50]);
  it("are those around what is on the screen", () => {
    expect([at(0), at(1000), at(3000), at(5000), at(6900), at(8280)]).toEqual([[0], [0], [0, 1], [1], [1, 2], [2]]);
  });
  it("are few, however many there are", () => {
    expect(seenPages({ scrollTop: 180_000, clientHeight: 1400, scrollHeight: 360_000 }, Array.from({ length: 100 }, () => 100)).length).toBeLessThanOrEqual(2);
  });
  it("are none of a list that has none", () => {
    expect(seenPages({ scrollTop: 0, clientHeight: 0, scrollHeight: 0 }, [])).toEqual([]);
  });
});
