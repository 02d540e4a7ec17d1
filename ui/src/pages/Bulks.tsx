// Bulks: one thing done to many runs, how far it is, and what could not be done.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data, type Once, type Schemas } from "../api/client";
import { useMay } from "../app/Shell";
import { handled, pace, tooLate, total, what, which } from "../lib/bulk";
import { counted } from "../lib/number";
import { useShown } from "../lib/shown";
import { isFinal, type State, STATES } from "../lib/state";
import { duration } from "../lib/time";
import { Ask, ReasonField } from "../parts/Ask";
import { JsonView } from "../parts/JsonView";
import { css, Head, Loading, Problem, StateChip, Time, useNow } from "../parts/parts";
import { Back } from "../parts/RunTable";

type Bulk = Schemas["Bulk"];

function state(bulk: Bulk): State {
  return bulk.status in STATES ? (bulk.status as State) : "queued";
}

/// How fast it goes, and how long it still takes.
function Pace({ bulk }: { bulk: Bulk }) {
  const found = pace(bulk, useNow());
  return found && <> {counted(found.rate)} a minute.{found.left !== undefined && ` About ${duration(found.left)} left.`}</>;
}

/// How far it is, in a row: of how many, how fast, for how long still.
function Far({ bulk }: { bulk: Bulk }) {
  const [all, found] = [total(bulk), pace(bulk, useNow())];
  const words = [all && `${counted(handled(bulk))} of ${all}`, found && `${counted(found.rate)} a minute`, found?.left !== undefined && `about ${duration(found.left)} left`];
  return <small className={css.muted}>{words.filter(Boolean).join(", ")}</small>;
}

/// So often a list is looked at again while something of it goes on.
const AGAIN = 2000;

function AbortDialog({ bulk, onClose }: { bulk: Bulk; onClose: () => void }) {
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const abort = async (once: Once) => {
    const now = (await data(once.POST("/api/v1/bulk/{id}/abort", { params: { path: { id: bulk.id } }, body: { reason: reason || undefined } }))) as Bulk;
    await client.invalidateQueries({ queryKey: ["bulk"] });
    const late = tooLate(now);
    if (late) throw new Error(late);
  };
  return <Ask title="Abort this bulk?" action="Abort" danger onDo={abort} onClose={onClose}><p>It stops after the runs in hand. What it did stays.</p><ReasonField value={reason} onChange={setReason} /></Ask>;
}

/// What people tell apart, and the statuses that it means.
const GROUPS: Record<string, string[]> = { unfinished: ["ready", "running", "waiting", "paused", "blocked"], completed: ["completed"], failed: ["failed"], aborted: ["cancelled"] };

export function BulksPage() {
  const { state: wanted } = useSearch({ strict: false }) as { state?: string };
  const navigate = useNavigate();
  const status = GROUPS[wanted ?? ""] ?? [];
  const may = useMay("operate");
  const [aborting, setAborting] = useState<Bulk | null>(null);
  const bulks = useInfiniteQuery({
    queryKey: ["bulk", "list", status],
    queryFn: ({ pageParam, signal }) => data(api.GET("/api/v1/bulk", { params: { query: { status, cursor: pageParam || undefined } as never }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: (query) => (query.state.data?.pages.some((page) => page.items.some((bulk) => !isFinal(bulk.status))) ? AGAIN : false),
  });
  const shown = useShown(bulks);
  const items = shown.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <Head title="Bulk">
        <label>State <select className={css.input} style={{ width: "auto" }} value={wanted && wanted in GROUPS ? wanted : ""} onChange={(event) => void navigate({ to: "/bulk" as string, search: { state: event.target.value || undefined } as never })}>
          <option value="">all</option>{Object.keys(GROUPS).map((one) => <option key={one}>{one}</option>)}
        </select></label>
      </Head>
      <Problem error={shown.error} />
      {shown.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead><tr><th>What</th><th>Which</th><th>State</th><th>By</th><th>Created</th><th>Progress</th><th className={css.num}>Done</th><th className={css.num}>Skipped</th><th className={css.num}>Failed</th>{may && <th className={css.num}>Actions</th>}</tr></thead>
            <tbody>
              {items.map((bulk) => (
                <tr key={bulk.id}>
                  <td><Link to={`/bulk/${bulk.id}` as string}>{what(bulk)}</Link></td>
                  <td className={`${css.mono} ${css.short}`} style={{ maxWidth: 200 }} title={which(bulk)}>{which(bulk)}</td>
                  <td><StateChip state={state(bulk)} /></td>
                  <td>{bulk.by ?? "–"}</td>
                  <td><Time at={bulk.created_at} /></td>
                  <td><Progress bulk={bulk} /><Far bulk={bulk} /></td>
                  <td className={css.num}>{bulk.done}</td><td className={css.num}>{bulk.skipped}</td><td className={css.num}>{bulk.failed}</td>
                  {may && <td><div className={css.actions}>{!isFinal(bulk.status) && <button type="button" className={`${css.button} ${css.small}`} aria-label={`Abort ${what(bulk)} ${which(bulk)}`} onClick={() => setAborting(bulk)}>Abort…</button>}</div></td>}
                </tr>
              ))}
            </tbody>
          </table>
          {!items.length && !shown.error && <div className={css.empty}><h2>{status.length ? "No bulk is in this state" : "Nothing was done in bulk yet"}</h2><p>Narrow the <Link to={"/runs" as string}>runs</Link>, then choose “Act on all…”.</p></div>}
        </div>
      )}
      {bulks.hasNextPage && <p><button type="button" className={css.button} disabled={bulks.isFetchingNextPage} onClick={() => void bulks.fetchNextPage()}>More</button></p>}
      {aborting && <AbortDialog bulk={aborting} onClose={() => setAborting(null)} />}
    </>
  );
}

function Progress({ bulk }: { bulk: Bulk }) {
  const percent = bulk.status === "completed" ? 100 : (bulk.percent ?? 0);
  return <div className={css.bar} role="progressbar" aria-valuenow={percent} aria-valuemin={0} aria-valuemax={100} aria-label={`Progress of ${what(bulk)}`}><span style={{ width: `${percent}%` }} /></div>;
}

export function BulkPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const may = useMay("operate");
  const [asking, setAsking] = useState(false);
  const found = useQuery({
    queryKey: ["bulk", id],
    queryFn: () => data(api.GET("/api/v1/bulk/{id}", { params: { path: { id } } })),
    refetchInterval: (query) => (query.state.data && isFinal(query.state.data.status) ? false : 1000),
  });
  const bulk = found.data;
  if (found.error instanceof ApiError && (found.error.status === 404 || found.error.code === "invalid_id")) {
    return <div className={css.empty}><h1>There is no such bulk</h1><p>It may have been deleted, or belong to another database. <Link to={"/bulk" as string}>To the bulks</Link></p></div>;
  }
  if (!bulk) return found.error ? <Problem error={found.error} /> : <Loading />;
  return (
    <>
      <Head title={<><Back to="/bulk" name="Bulk" /> {what(bulk)} <StateChip state={state(bulk)} /></>} name={`${what(bulk)} …${bulk.id.slice(-8)}, bulk`}>
        <Link to={`/runs/${bulk.id}` as string}>as a run</Link>
        {may && !isFinal(bulk.status) && <button type="button" className={`${css.button} ${css.danger}`} onClick={() => setAsking(true)}>Abort…</button>}
      </Head>
      <div className={css.card} style={{ padding: 16, display: "grid", gap: 14 }}>
        <Progress bulk={bulk} />
        <div role="status" aria-live="off">{bulk.done} done, {bulk.skipped} skipped, {bulk.failed} failed{bulk.message ? `: ${bulk.message}` : ""}. Started <Time at={bulk.created_at} /> by {bulk.by ?? "nobody who said so"}.<Pace bulk={bulk} /></div>
        <div>Which: <code>{which(bulk)}</code></div>
        <JsonView value={bulk.ask} name="What was asked for" />
        {bulk.failures.length > 0 && (
          <table className={css.table}>
            {bulk.failed > bulk.failures.length && <caption>The first {bulk.failures.length.toLocaleString("en")} of {bulk.failed.toLocaleString("en")} that failed</caption>}
            <thead><tr><th>Run</th><th>Why not</th></tr></thead>
            <tbody>{bulk.failures.map((failure) => <tr key={failure.run}><td><Link to={`/runs/${failure.run}` as string} className={css.mono}>{failure.run}</Link></td><td>{failure.reason}</td></tr>)}</tbody>
          </table>
        )}
      </div>
      {asking && <AbortDialog bulk={bulk} onClose={() => setAsking(false)} />}
    </>
  );
}
