// How the numbers of the first page are asked for: by it, and before there is one, so that whoever opens the dashboard with it waits once.
import { queryOptions } from "@tanstack/react-query";
import { api, data } from "../api/client";

export const RANGES = ["15m", "1h", "6h", "24h", "7d"];
/// How often sums are asked for again: the server makes them every few seconds.
export const EVERY = 5000;

/// The range that an address names.
export function rangeOf({ range }: { range?: unknown }): string {
  return typeof range === "string" && RANGES.includes(range) ? range : "1h";
}

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/// How long such a range is, in milliseconds.
export function lengthOf(range: string): number {
  return Number.parseInt(range, 10) * (UNITS[range.at(-1)!] ?? 0);
}

export function summaryOf(range: string) {
  return queryOptions({
    queryKey: ["stats", "summary", range],
    queryFn: () => data(api.GET("/api/v1/stats/summary", { params: { query: { range } } })),
    refetchInterval: EVERY,
    placeholderData: (before) => before,
  });
}
