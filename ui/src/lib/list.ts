// How the list of runs is asked for: by its page, and before there is one, so that whoever opens the dashboard with it waits once.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { asked, fromSearch, toSearch } from "./filter";

/// What an address narrows the list to, as the API is asked.
export function narrowed(search: Record<string, unknown>): Record<string, string> {
  return toSearch(asked(fromSearch(search))) as Record<string, string>;
}

export function sortOf(search: Record<string, unknown>): "oldest" | undefined {
  return search.sort === "oldest" ? "oldest" : undefined;
}

/// So many runs are on a page.
export const PAGE = 100;
/// How often the list is asked for though nothing is told: of runs that have many newer ones before them only the end is.
export const NOW_AND_THEN = 10_000;

function pageOf(search: Record<string, unknown>, cursor: string, signal: AbortSignal) {
  return data(api.GET("/api/v1/runs", { params: { query: { ...narrowed(search), sort: sortOf(search), limit: PAGE, cursor: cursor || undefined } as never }, signal }));
}

export function listOf(search: Record<string, unknown>) {
  return infiniteQueryOptions({
    queryKey: ["runs", "list", narrowed(search), sortOf(search)],
    queryFn: ({ pageParam, signal }) => pageOf(search, pageParam, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: NOW_AND_THEN,
  });
}

/// The same for a page on which rows may be held: then it is not asked for again, which would be all its pages one after the other with everything
/// that happens. Where much does they would always be on their way, and no next page could come.
export function listWhile(isStill: boolean, search: Record<string, unknown>) {
  return { ...listOf(search), enabled: (query: { state: { data?: unknown } }) => !isStill || query.state.data === undefined };
}

/// Some pages of it alone, by their cursors. `since` tells one time that rows were held from others: what was known then is old now.
export function pagesOf(search: Record<string, unknown>, cursors: string[], since: number) {
  return queryOptions({
    queryKey: ["runs", "pages", narrowed(search), sortOf(search), since, cursors],
    queryFn: ({ signal }) => Promise.all(cursors.map((cursor) => pageOf(search, cursor, signal))),
    placeholderData: undefined,
    gcTime: 0,
  });
}

/// Which pages have rows on the screen, or almost, by how far it is scrolled: all rows are of one height. `lengths` says how many rows each has.
export function seenPages({ scrollTop, clientHeight, scrollHeight }: Pick<Element, "scrollTop" | "clientHeight" | "scrollHeight">, lengths: number[]): number[] {
  const rows = lengths.reduce((sum, length) => sum + length, 0);
  const at = (height: number) => (rows * height) / Math.max(1, scrollHeight);
  const [from, to] = [at(scrollTop - clientHeight / 2), at(scrollTop + clientHeight * 1.5)];
  let end = 0;
  return lengths.flatMap((length, page) => {
    const begin = end;
    end += length;
    return begin < to && end > from ? [page] : [];
  });
}
