// A line without numbers, beside a number: whether it grows. It says in words what it draws.
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { ceiling, fold, line } from "../lib/chart";
import { counted } from "../lib/number";
import { about, duration } from "../lib/time";
import { css } from "./parts";

/// Spans of a line this small.
const SPANS = 30;
/// The server sums up every few seconds, and nobody reads seconds off a line of ninety pixels.
const EVERY = 15_000;

interface Of {
  queue?: string;
  def?: string;
}

/// What is asked for once, however many show something of it.
function useSeries(of: Of, range: string) {
  return useQuery({
    queryKey: ["stats", "series", range, of.queue ?? "", of.def ?? ""],
    queryFn: () => data(api.GET("/api/v1/stats/series", { params: { query: { range, ...of } } })),
    refetchInterval: EVERY, staleTime: EVERY, retry: false,
  }).data;
}

/// How long runs that ended within the range had stood in line before a node took them, and for how long the first in line had, at most.
export function WaitInLine({ queue, range, none = null }: { queue: string; range: string; none?: string | null }) {
  const found = useSeries({ queue }, range);
  const longest = Math.max(0, ...(found?.points ?? []).flatMap((point) => point.queue_wait_ms ?? []));
  const most = found?.wait_p95_ms ?? null;
  if (most === null && !(longest > 0)) return none;
  const said = [most !== null && `p95 ${about(most)}`, longest > 0 && `at most ${duration(longest)}`].filter(Boolean).join(", ");
  return (
    <div className={css.muted} title={`How long runs stood in line before a node took them, of those that ended within ${range}: 95 of 100 for less than ${most === null ? "nobody knows" : about(most)} (within a factor of two). The first in line was seen there for ${duration(longest)} at most, looked at once a minute`}>
      {said}
    </div>
  );
}

/// How many runs ended (or failed) over the range, of a queue or a definition.
export function Spark({ of, range, what = "ended" }: { of: Of; range: string; what?: "ended" | "failed" }) {
  const points = useSeries(of, range)?.points;
  if (!points) return null;
  const counts = points.map((point) => (what === "failed" ? point.failed : point.completed + point.failed + point.cancelled));
  return <SparkLine counts={counts} range={range} what={what} />;
}

/// The line itself, of counts that are known.
export function SparkLine({ counts, range, what }: { counts: number[]; range: string; what: "ended" | "failed" }) {
  const values = fold(counts, SPANS);
  const said = `${counted(counts.reduce((sum, count) => sum + count, 0))} ${what} in ${range}`;
  return (
    <svg className={css.spark} data-tone={what === "failed" ? "red" : undefined} viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={said}>
      <title>{said}</title>
      <path d={line(values, ceiling(Math.max(0, ...values)))} />
    </svg>
  );
}
