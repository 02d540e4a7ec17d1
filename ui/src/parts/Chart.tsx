// Charts over the same spans of time: how runs ended, how long they took, how many stood in line. Each has one scale. Drawn as SVG, told as a table to those who
// do not see it.
import { line, ceiling, type Span, stacks } from "../lib/chart";
import { counted } from "../lib/number";
import { about, clock, duration, millis, serverNow } from "../lib/time";
import { useUtc } from "../lib/zone";
import css from "./chart.module.css";

export interface Point {
  at: string;
  completed: number;
  failed: number;
  cancelled: number;
  p50_ms?: number | null;
  p95_ms?: number | null;
  /// How long they stood in line before a node first took them.
  wait_p50_ms?: number | null;
  wait_p95_ms?: number | null;
  /// How many were due and not taken, and for how long the first of them had been, at most.
  queued?: number | null;
  queue_wait_ms?: number | null;
}

/// All charts of something. Their room is there before they are, so that nothing below them moves.
export function Charts({ found, hasLine = false }: { found: { data?: { points: Point[]; step_ms: number }; error: unknown }; hasLine?: boolean }) {
  if (found.error && !found.data) return null;
  const points = found.data?.points ?? [];
  return (
    <div className={css.charts}>
      <Throughput points={points} step={found.data?.step_ms ?? 60_000} />
      <Latency points={points} />
      {hasLine && <Depth points={points} />}
    </div>
  );
}

const ENDS = ["completed", "failed", "cancelled"] as const;

function Throughput({ points, step }: { points: Point[]; step: number }) {
  const when = useWhen();
  const { stacks: bars, top } = stacks(points.map((point) => ENDS.map((end) => point[end])));
  const width = 100 / Math.max(1, points.length);
  return (
    <Frame title="Ended runs" of={`per ${duration(step)}`} top={counted(top)} points={points} legend={ENDS.map((end) => [end, end])} isEmpty={!points.some((point) => ENDS.some((end) => point[end]))} told={summed(points)}>
      {bars.map((bar, at) => {
        let below = 0;
        return (
          <g key={points[at]!.at}>
            <title>{`${when(points[at]!)}: ${ENDS.map((end) => `${points[at]![end]} ${end}`).join(", ")}`}</title>
            <rect className={css.whole} x={at * width} y={0} width={width} height={100} />
            {bar.parts.map((part, nth) => {
              below += part;
              return part > 0 && <rect key={ENDS[nth]} className={css[ENDS[nth]!]} x={at * width + width * 0.1} y={100 - below * 100} width={width * 0.8} height={part * 100} />;
            })}
          </g>
        );
      })}
    </Frame>
  );
}

/// How many failed alike.
export function Failed({ spans, step }: { spans: Span[]; step: number }) {
  const [utc, now] = [useUtc(), serverNow()];
  const { stacks: bars, top } = stacks(spans.map((span) => [span.count]));
  const width = 100 / Math.max(1, spans.length);
  const all = spans.reduce((sum, span) => sum + span.count, 0);
  return (
    <Frame title="Failed like this" of={`per ${duration(Math.round(step / 60_000) * 60_000)}`} top={counted(top)} points={spans.map((span) => ({ at: new Date(span.at).toISOString() }))} legend={[["failed", "failed"]]} isEmpty={!all} told={`${counted(all)} failed`}>
      {bars.map((bar, at) => (
        <g key={spans[at]!.at}>
          <title>{`${clock(spans[at]!.at, now, utc)}: ${spans[at]!.count} failed`}</title>
          <rect className={css.whole} x={at * width} y={0} width={width} height={100} />
          {bar.total > 0 && <rect className={css.failed} x={at * width + width * 0.1} y={100 - bar.parts[0]! * 100} width={width * 0.8} height={bar.parts[0]! * 100} />}
        </g>
      ))}
    </Frame>
  );
}

const LINES: [string, string][] = [["wait50", "in line p50"], ["wait95", "in line p95"]];

function Latency({ points }: { points: Point[] }) {
  const when = useWhen();
  const known = points.flatMap((point) => [point.p50_ms ?? 0, point.p95_ms ?? 0, point.wait_p95_ms ?? 0]);
  const lines = points.some((point) => point.wait_p95_ms != null);
  const top = ceiling(Math.max(0, ...known));
  const width = 100 / Math.max(1, points.length);
  return (
    <Frame title="From start to end" of="within a factor of two" top={duration(top)} points={points} legend={[["p50", "p50"], ["p95", "p95"], ...(lines ? LINES : [])]} isEmpty={!known.some((value) => value > 0)} told={summed(points)}>
      {lines && <path className={css.wait95} d={line(points.map((point) => point.wait_p95_ms ?? null), top)} />}
      {lines && <path className={css.wait50} d={line(points.map((point) => point.wait_p50_ms ?? null), top)} />}
      <path className={css.p95} d={line(points.map((point) => point.p95_ms ?? null), top)} />
      <path className={css.p50} d={line(points.map((point) => point.p50_ms ?? null), top)} />
      {points.map((point, at) => (
        <g key={point.at}>
          <title>{`${when(point)}: ${point.p95_ms == null ? "nothing ended" : `half took less than ${about(point.p50_ms ?? 0)}, 95 % less than ${about(point.p95_ms)}`}${point.wait_p95_ms == null ? "" : `; before a node took them, half stood in line for less than ${about(point.wait_p50_ms ?? 0)}, 95 % for less than ${about(point.wait_p95_ms)}`}`}</title>
          <rect className={css.whole} x={at * width} y={0} width={width} height={100} />
        </g>
      ))}
    </Frame>
  );
}

/// What was in line.
export function Depth({ points }: { points: Point[] }) {
  const when = useWhen();
  const top = ceiling(Math.max(0, ...points.map((point) => point.queued ?? 0)));
  const isEmpty = !points.some((point) => point.queued);
  const width = 100 / Math.max(1, points.length);
  return (
    <Frame title="In line" of="due and not taken, at most" top={counted(top)} points={points} legend={[["p50", "due runs"]]} isEmpty={isEmpty} told={`${points.at(-1)?.queued ?? 0} at last`}>
      {/* That there is nothing is said already: a line along the bottom would say it twice. */}
      {!isEmpty && <path className={css.p50} d={line(points.map((point) => point.queued ?? null), top)} />}
      {points.map((point, at) => (
        <g key={point.at}>
          <title>{`${when(point)}: ${point.queued == null ? "nobody looked" : `${point.queued} in line, the first for ${duration(point.queue_wait_ms ?? 0)}`}`}</title>
          <rect className={css.whole} x={at * width} y={0} width={width} height={100} />
        </g>
      ))}
    </Frame>
  );
}

/// How a point's time is said, in the zone that was chosen.
function useWhen(): (point: Pick<Point, "at">) => string {
  const utc = useUtc();
  return (point) => clock(millis(point.at) ?? 0, serverNow(), utc);
}

function summed(points: Point[]): string {
  return ENDS.map((end) => `${points.reduce((sum, point) => sum + point[end], 0)} ${end}`).join(", ");
}

interface Framed {
  title: string;
  of: string;
  top: string;
  points: Pick<Point, "at">[];
  legend: [string, string][];
  /// There is nothing to be drawn: a scale of nothing would say something.
  isEmpty: boolean;
  /// What it shows, for those who do not see it.
  told: string;
  children: React.ReactNode;
}

function Frame({ title, of, top, points, legend, isEmpty, told, children }: Framed) {
  const when = useWhen();
  const first = points[0];
  const last = points[points.length - 1];
  return (
    <figure className={css.chart}>
      <figcaption>
        <h2>{title}</h2> <span>{of}</span>
        <ul>{legend.map(([tone, word]) => <li key={tone}><i className={css[tone]} aria-hidden="true" />{word}</li>)}</ul>
      </figcaption>
      <div className={css.box}>
        {points.length > 0 && (isEmpty ? <span className={css.none}>nothing in this time</span> : <span className={css.top}>{top}</span>)}
        <svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={`${title}: ${told}`}>
          {children}
        </svg>
      </div>
      <div className={css.axis}><span>{first && when(first)}</span><span>{last && when(last)}</span></div>
    </figure>
  );
}
