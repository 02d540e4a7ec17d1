// How things stand: what runs and waits, how runs ended lately, where the line is long, what failed. Sums come from the
// server's minutes; nothing here goes through runs.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { api, data } from "../api/client";
import { useTopics } from "../app/live";
import { later, upTo } from "../lib/cards";
import { ME, useReach } from "../lib/me";
import { counted } from "../lib/number";
import { useShown } from "../lib/shown";
import { EVERY, RANGES, rangeOf, summaryOf } from "../lib/sums";
import { between, coarse, millis } from "../lib/time";
import { Charts } from "../parts/Chart";
import { AfterFirstPaint, css, Head, Loading, Problem, Time, useNow } from "../parts/parts";
import { Spark } from "../parts/Spark";
import { ErrorTable } from "./Errors";
import { QueueState, Used } from "./Queues";
import { WarningCount, Warnings } from "./Warnings";
import page from "./overview.module.css";

/// The most queues and failures of this page.
const FEW = 6;

export function useRange(): string {
  return rangeOf(useSearch({ strict: false }));
}

export function RangeSwitch({ to, params }: { to: string; params?: Record<string, string> }) {
  const range = useRange();
  const navigate = useNavigate();
  return (
    <div role="group" aria-label="Time" className={page.ranges}>
      {RANGES.map((one) => (
        <button key={one} type="button" className={`${css.button} ${css.small}`} aria-pressed={one === range} onClick={() => void navigate({ to: to as string, params: params as never, search: ((before: object) => ({ ...before, range: one })) as never })}>
          {one}
        </button>
      ))}
    </div>
  );
}

export function OverviewPage() {
  const range = useRange();
  const summary = useShown(useQuery(summaryOf(range)));
  const sums = summary.data;
  const me = useQuery(ME).data;
  return (
    <>
      <Head title="Overview"><AfterFirstPaint><WarningCount /></AfterFirstPaint><RangeSwitch to="/" /></Head>
      <Problem error={summary.error} />
      {!sums ? !summary.error && <Loading /> : (
        <div className={page.cards}>
          <Card name="Running" shown={upTo(sums.running)} search={{ status: ["running", "undoing"] }} />
          <Card name="Queued" shown={upTo(sums.queued)} search={{ status: "ready" }} more={later(sums)} />
          <Card name="Waiting" shown={upTo(sums.waiting)} search={{ status: "waiting" }} />
          <Card name={`Failed in ${range}`} shown={counted(sums.failed)} search={{ status: "failed", ended: range }} tone={sums.failed ? "red" : undefined} more={`of ${counted(sums.completed + sums.failed + sums.cancelled)} ended`} />
          {/* Of one tenant alone that is not known. */}
          <Oldest since={sums.oldest_due_at} isKnown={me?.tenant == null} />
          {/* Nobody looks for what is not there. */}
          {sums.stopped > 0 && <Card name="Need somebody" shown={upTo(sums.stopped)} search={{ status: ["paused", "blocked", "undo_failed"] }} tone="amber" />}
        </div>
      )}
      <AfterFirstPaint><Lately range={range} /></AfterFirstPaint>
      <AfterFirstPaint><Warnings /></AfterFirstPaint>
    </>
  );
}

/// How runs ended lately, where the line is long, what failed.
function Lately({ range }: { range: string }) {
  useTopics("queues");
  const reach = useReach();
  const query = { params: { query: { range } } };
  const series = useShown(useQuery({ queryKey: ["stats", "series", range], queryFn: () => data(api.GET("/api/v1/stats/series", query)), refetchInterval: EVERY, placeholderData: (before) => before }));
  const errors = useShown(useQuery({ queryKey: ["errors", range], queryFn: () => data(api.GET("/api/v1/errors", query)), enabled: reach("errors") === true, refetchInterval: EVERY }));
  const queues = useShown(useQuery({ queryKey: ["queues"], queryFn: () => data(api.GET("/api/v1/queues")), enabled: reach("queues") === true }));
  const busy = [...(queues.data?.items ?? [])].sort((a, b) => b.due + b.running - a.due - a.running).slice(0, FEW);
  return (
    <>
      <Problem error={series.error} />
      {/* How long the line was is known of all tenants together. */}
      <Charts found={series} hasLine={reach("queues") !== false} />
      <div className={page.charts}>
        {reach("queues") !== false && <section className={`${css.card} ${css.scroll}`}>
          <h2 className={page.title}><Link to={"/queues" as string}>Queues</Link></h2>
          <Problem error={queues.error} />
          <table className={css.table}>
            <thead><tr><th>Name</th><th className={css.num}>Due</th><th className={css.num}>Running</th><th>Oldest due</th><th>Ended</th></tr></thead>
            <tbody>
              {busy.map((queue) => (
                <tr key={queue.name}>
                  <td><Link to={"/queues/$name" as string} params={{ name: queue.name } as never}>{queue.name}</Link>{queue.state !== "open" && <> <QueueState queue={queue} /></>}</td>
                  <td className={css.num}>{counted(queue.due)}</td>
                  <td className={css.num}><Used queue={queue} /></td>
                  <td><Time at={queue.oldest_due_at} /></td>
                  <td><Spark of={{ queue: queue.name }} range={range} /></td>
                </tr>
              ))}
            </tbody>
          </table>
          {queues.data && !busy.length && <div className={css.empty}>No queue has rules or unfinished runs.</div>}
        </section>}
        {reach("errors") !== false && <section className={`${css.card} ${css.scroll}`}>
          <h2 className={page.title}><Link to={"/errors" as string} search={{ range } as never}>Failures</Link></h2>
          <Problem error={errors.error} />
          {errors.data?.items.length ? <ErrorTable items={errors.data.items.slice(0, FEW)} /> : errors.data && <div className={css.empty}>Nothing failed in the last {range}.</div>}
        </section>}
      </div>
    </>
  );
}

/// For how long the one that has been due for longest has been in line.
function Oldest({ since, isKnown }: { since?: string | null; isKnown: boolean }) {
  const now = useNow();
  const due = millis(since);
  return <Card name="Oldest queued" shown={due === null ? "–" : coarse(between(due, now))} search={{ status: "ready", sort: "oldest" }} more={due !== null ? "in line" : isKnown ? "nobody is in line" : "not known"} />;
}

function Card({ name, shown, search, more, tone }: { name: string; shown: string; search: Record<string, unknown>; more?: React.ReactNode; tone?: "red" | "amber" }) {
  return (
    <Link to={"/runs" as string} search={search as never} className={page.card} data-card>
      <span>{name}</span>
      <strong className={tone ? page[tone] : undefined}>{shown}</strong>
      <small>{more ?? " "}</small>
    </Link>
  );
}
