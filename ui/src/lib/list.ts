// How the list of runs is asked for: by its page, and before there is one, so that whoever opens the dashboard with it waits once.
import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { asked, fromSearch, toSearch } from "./filter";

/// What an address narrows the list to, as the API is asked.
export function narrowed(search: Record<string, unknown>): Record<string, string> {
  return toSearch(asked(fromSearch(search))) as Record<string, string>;
}

export function sortOf(search: Record<string, unknown>): "oldest" | undefined {
  return search.sort === "oldest" ? "oldest" : undefined;
}

export function listOf(search: Record<string, unknown>) {
  const [query, sort] = [narrowed(search), sortOf(search)];
  return infiniteQueryOptions({
    queryKey: ["runs", "list", query, sort],
    queryFn: ({ pageParam, signal }) =>
      data(api.GET("/api/v1/runs", { params: { query: { ...query, sort, limit: 100, cursor: pageParam || undefined } as never }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
}
