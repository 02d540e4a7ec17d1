// Bulks: one thing done to many runs, how far it is, and what could not be done.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data, type Schemas } from "../api/client";
import { useMay } from "../app/Shell";
import { what, which } from "../lib/bulk";
import { isFinal, type State, STATES } from "../lib/state";
import { duration, millis } from "../lib/time";
import { Ask, ReasonField } from "../parts/Ask";
import { JsonView } from "../parts/JsonView";
import { css, Head, Loading, Problem, StateChip, Time, useNow } from "../parts/parts";
import { Back } from "../parts/RunTable";

type Bulk = Schemas["Bulk"];

function state(bulk: Bulk): State {
  return bulk.status in STATES ? (bulk.status as State) : "queued";
}

const A_WHILE = 5000;

/// How fast it goes, and how long it still takes.
function Pace({ bulk }: { bulk: Bulk }) {
  const now = useNow();
  const began = millis(bulk.created_at) ?? now;
  const spent = Math.max(1, (millis(bulk.finished_at) ?? now) - began);
  const handled = bulk.done + bulk.skipped + bulk.failed;
  // Of what took no time nobody reads how many would be done in a minute.
  if (!handled || spent < A_WHILE) return null;
  const left = bulk.percent && !isFinal(bulk.status) ? ` About ${duration((spent * (100 - bulk.percent)) / bulk.percent)} left.` : "";
  return <> {Math.round((handled * 60_000) / spent).toLocaleString("en")} a minute.{left}</>;
}

/// What people tell apart, and the statuses that it means.
const GROUPS: Record<string, string[]> = { unfinished: ["ready", "running", "waiting", "paused", "blocked"], completed: ["completed"], failed: ["failed"], aborted: ["cancelled"] };

export function BulksPage() {
  const { state: wanted } = useSearch({ strict: false }) as { state?: string };
  const navigate = useNavigate();
  const status = GROUPS[wanted ?? ""] ?? [];
  const bulks = useQuery({ queryKey: ["bulk", "list", status], queryFn: () => data(api.GET("/api/v1/bulk", { params: { query: { status } as never } })) });
  return (
    <>
      <Head title="Bulk">
        <label>State <select className={css.input} style={{ width: "auto" }} value={wanted && wanted in GROUPS ? wanted : ""} onChange={(event) => void navigate({ to: "/bulk" as string, search: { state: event.target.value || undefined } as never })}>
          <option value="">all</option>{Object.keys(GROUPS).map((one) => <option key={one}>{one}</option>)}
        </select></label>
      </Head>
      <Problem error={bulks.error} />
      {bulks.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead><tr><th>What</th><th>Which</th><th>State</th><th>By</th><th>Started</th><th>Progress</th><th className={css.num}>Done</th><th className={css.num}>Skipped</th><th className={css.num}>Failed</th></tr></thead>
            <tbody>
              {bulks.data?.items.map((bulk) => (
                <tr key={bulk.id}>
                  <td><Link to={`/bulk/${bulk.id}` as string}>{what(bulk)}</Link></td>
                  <td className={`${css.mono} ${css.short}`} title={which(bulk)}>{which(bulk)}</td>
                  <td><StateChip state={state(bulk)} /></td>
                  <td>{bulk.by ?? "–"}</td>
                  <td><Time at={bulk.created_at} /></td>
                  <td><Progress bulk={bulk} /></td>
                  <td className={css.num}>{bulk.done}</td><td className={css.num}>{bulk.skipped}</td><td className={css.num}>{bulk.failed}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {!bulks.data?.items.length && !bulks.error && <div className={css.empty}><h2>{status.length ? "No bulk is in this state" : "Nothing was done in bulk yet"}</h2><p>Narrow the <Link to={"/runs" as string}>runs</Link>, then choose “Act on all…”.</p></div>}
        </div>
      )}
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
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState("");
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
  const abort = async () => {
    await data(api.POST("/api/v1/bulk/{id}/abort", { params: { path: { id } }, body: { reason: reason || undefined } }));
    await client.invalidateQueries({ queryKey: ["bulk"] });
  };
  return (
    <>
      <Head title={<><Back to="/bulk" name="Bulk" /> {what(bulk)} <StateChip state={state(bulk)} /></>}>
        <Link to={`/runs/${bulk.id}` as string}>as a run</Link>
        {may && !isFinal(bulk.status) && <button type="button" className={`${css.button} ${css.danger}`} onClick={() => setAsking(true)}>Abort…</button>}
      </Head>
      <div className={css.card} style={{ padding: 16, display: "grid", gap: 14 }}>
        <Progress bulk={bulk} />
        <div role="status">{bulk.done} done, {bulk.skipped} skipped, {bulk.failed} failed{bulk.message ? `: ${bulk.message}` : ""}. Started <Time at={bulk.created_at} /> by {bulk.by ?? "nobody who said so"}.<Pace bulk={bulk} /></div>
        <div>Which: <code>{which(bulk)}</code></div>
        <JsonView value={bulk.ask} name="What was asked for" />
        {bulk.failures.length > 0 && (
          <table className={css.table}>
            <thead><tr><th>Run</th><th>Why not</th></tr></thead>
            <tbody>{bulk.failures.map((failure) => <tr key={failure.run}><td><Link to={`/runs/${failure.run}` as string} className={css.mono}>{failure.run}</Link></td><td>{failure.reason}</td></tr>)}</tbody>
          </table>
        )}
      </div>
      {asking && <Ask title="Abort this bulk?" action="Abort" danger onDo={abort} onClose={() => setAsking(false)}><p>It stops after the runs in hand. What it did stays.</p><ReasonField value={reason} onChange={setReason} /></Ask>}
    </>
  );
}
