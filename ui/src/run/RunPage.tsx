// One run: where it stands and why, what can be done about it, and what it did.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type CSSProperties, useEffect, useMemo } from "react";
import { api, ApiError, data, type Schemas } from "../api/client";
import { useKeys } from "../app/keys";
import { useTopics } from "../app/live";
import { keepOpened, neighbour } from "../lib/kept";
import { isFinal, type Run, stateOf, stepKey, stepOf } from "../lib/state";
import { between, duration, millis } from "../lib/time";
import { Divider, useShare } from "../parts/Divider";
import { JsonView } from "../parts/JsonView";
import { Copy, css as parts, Loading, Note, Problem, StateChip, Time, useNow, useTitle } from "../parts/parts";
import { Actions } from "./Actions";
import { Explain, useExplained } from "./Explain";
import { HistoryTab } from "./History";
import { LogsTab } from "./Logs";
import { RawTab } from "./Raw";
import { shares, type Share } from "./layout";
import css from "./run.module.css";
import { StepPanel } from "./StepPanel";
import { stepsOf } from "./steps";
import { Timeline } from "./Timeline";

/// How much of the width the timeline has beside a step, in percent, unless somebody moved the divider.
const PAGE = 61;
const TABS = ["timeline", "history", "logs", "raw"] as const;

export function useRun(id: string) {
  return useQuery({ queryKey: ["run", id], queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}", { params: { path: { id } }, signal })), placeholderData: undefined });
}

export function RunPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const search = useSearch({ strict: false }) as { tab?: string; step?: string; idle?: string; zoom?: string };
  const navigate = useNavigate();
  const run = useRun(id);
  // The server refuses a stream about what it cannot know.
  useTopics(...(run.error instanceof ApiError && run.error.code === "invalid_id" ? [] : [`run:${id}`, `logs:${id}`]));
  useKeys((key) => {
    const next = key === "[" ? neighbour(id, -1) : key === "]" ? neighbour(id, 1) : undefined;
    if (!next) return false;
    void navigate({ to: `/runs/${next}` as string });
    return true;
  });
  const steps = useQuery(stepsOf(id));
  const [page, setPage] = useShare("page", PAGE);
  const name = run.data && `${run.data.definition} ${run.data.key ?? `…${id.slice(-8)}`}`;
  useEffect(() => {
    if (name) keepOpened({ id, name });
  }, [id, name]);
  const explained = useExplained(id, run.data ? !isFinal(run.data.status) : false);
  const tab = TABS.find((one) => one === search.tab) ?? "timeline";
  const to = (change: Record<string, string | undefined>) => ({ ...search, ...change }) as never;
  const select = (step: string | undefined) => void navigate({ to: `/runs/${id}` as string, search: to({ step }), replace: true });

  if (!run.data) {
    if (run.error instanceof ApiError && (run.error.status === 404 || run.error.code === "invalid_id")) {
      return <div className={parts.empty}><h1>There is no such run</h1><p>{run.error.code === "invalid_id" ? `${run.error.message}. ` : ""}It may have been deleted, or belong to another database. <Link to={"/runs" as string}>To the runs</Link></p></div>;
    }
    return run.error ? <Problem error={run.error} /> : <Loading />;
  }
  const chosen = stepOf(steps.data?.items ?? [], search.step);
  return (
    <>
      <Header run={run.data} explained={explained.data} steps={steps.data?.items ?? []} />
      {steps.data && <Spent run={run.data} steps={steps.data.items} />}
      <div className={css.stack}>
        {!isFinal(run.data.status) && explained.data && <Explain explained={explained.data} run={run.data} />}
        {run.data.status === "paused" && run.data.pause_reason && <Note>Paused: {run.data.pause_reason}</Note>}
        {run.data.cancel_reason && !run.data.error && <Note>Cancelled: {run.data.cancel_reason}</Note>}
        {run.data.error && <div className={css.error} role="note"><strong>{run.data.status === "cancelled" ? "Cancelled" : "Failed"}:</strong> {run.data.error.message}{run.data.failure && <> <Link to={"/errors/$fp" as string} params={{ fp: run.data.failure } as never}>others like it</Link></>}</div>}
        <Problem error={run.error ?? steps.error} />
      </div>
      <nav className={css.tabs} aria-label="Of this run">
        {TABS.map((one) => (
          <Link key={one} to={`/runs/${id}` as string} search={to({ tab: one === "timeline" ? undefined : one })} activeOptions={{ exact: true, includeSearch: true, explicitUndefined: true }} data-on={one === tab}>
            {one[0]!.toUpperCase() + one.slice(1)}
          </Link>
        ))}
        {tab === "timeline" && (
          <label>
            <input type="checkbox" checked={search.idle !== "1"} onChange={(event) => void navigate({ to: `/runs/${id}` as string, search: to({ idle: event.target.checked ? undefined : "1" }), replace: true })} />
            Compress idle time
          </label>
        )}
      </nav>
      {tab === "timeline" && (
        <div className={css.split} data-open={!!chosen} style={{ "--page": `${page}%` } as CSSProperties}>
          {chosen && <Divider label="Room for the timeline" percent={page} usual={PAGE} onMove={setPage} />}
          <div>
            <Timeline run={run.data} steps={steps.data?.items ?? []} total={steps.data?.total} compress={search.idle !== "1"} zoom={search.zoom} onZoom={(zoom) => void navigate({ to: `/runs/${id}` as string, search: to({ zoom }), replace: true })} chosen={chosen && stepKey(chosen)} onChoose={select} />
            {!chosen && <Payloads run={run.data} />}
          </div>
          {chosen && <StepPanel run={run.data} step={chosen} onClose={() => select(undefined)} />}
        </div>
      )}
      {tab === "history" && <HistoryTab id={id} />}
      {tab === "logs" && <LogsTab id={id} />}
      {tab === "raw" && <RawTab run={run.data} />}
    </>
  );
}

const SPENT: [Share, string][] = [["queued", "in line"], ["running", "running"], ["backoff", "pausing before another attempt"], ["waiting", "waiting"], ["between", "between steps"]];

/// Those that stand still until somebody mends something.
const BAD = ["blocked", "undo_failed"];

/// What one that stands still has done since the last thing it did.
function stillOf(run: Run, now: number): string | undefined {
  if (run.status === "ready") return (millis(run.due_at) ?? now) > now ? "not due yet" : undefined;
  return { paused: "paused", blocked: "blocked", undo_failed: "since its undo gave up" }[run.status as string];
}

/// What the time went to.
function Spent({ run, steps }: { run: Run; steps: Schemas["Step"][] }) {
  const now = useNow();
  const began = millis(run.created_at) ?? now;
  const to = millis(run.finished_at) ?? now;
  // One that continued as new has only what it did since then: what was before it was not spent in line.
  const isLate = steps.length > 0 && (millis(steps[0]!.began_at) ?? began) > began + 1000;
  const first = useQuery({ queryKey: ["run", run.id, "first"], queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}/history", { params: { path: { id: run.id }, query: { limit: 1 } }, signal })), enabled: isLate, retry: false });
  const anew = first.data?.items[0];
  const from = isLate && anew?.op === "continue" ? (millis(anew.at) ?? began) : began;
  const still = stillOf(run, now);
  const spent = useMemo(() => shares(steps, from, to, to, still !== undefined), [steps, from, to, still]);
  const whole = Math.max(1, to - from);
  const told = [...SPENT, ["still", still ?? ""] as [Share, string]].filter(([share]) => spent[share] > 0);
  return (
    <div className={css.spent} role="img" aria-label={`Time: ${told.map(([share, word]) => `${duration(spent[share])} ${word}`).join(", ")}`}>
      <div>{told.map(([share]) => <span key={share} data-share={share} data-bad={BAD.includes(run.status)} style={{ flexGrow: Math.max(spent[share] / whole, 0.004) }} />)}</div>
      <ul>{told.map(([share, word]) => <li key={share}><i data-share={share} data-bad={BAD.includes(run.status)} />{duration(spent[share])} {word}</li>)}</ul>
    </div>
  );
}

export function Payloads({ run }: { run: Run }) {
  return (
    <div className={css.split} style={{ marginTop: 14, gridTemplateColumns: "repeat(auto-fit, minmax(280px, 1fr))" }}>
      <section className={css.panel} style={{ position: "static" }}><h2>Input</h2><JsonView value={run.input ?? null} name="input" /></section>
      {run.status === "completed" && <section className={css.panel} style={{ position: "static" }}><h2>Output</h2><JsonView value={run.output ?? null} name="output" /></section>}
    </div>
  );
}

/// The tag by which forks of a run are found.
const FORK = "outlast.fork-of";

function Header({ run, explained, steps }: { run: Run; explained: unknown; steps: Schemas["Step"][] }) {
  const now = useNow();
  const began = millis(run.created_at) ?? now;
  const heading = useTitle();
  const forkOf = run.tags[FORK];
  const forks = useQuery({ queryKey: ["runs", "forks", run.id], queryFn: ({ signal }) => data(api.GET("/api/v1/runs", { params: { query: { tag: [`${FORK}=${run.id}`], limit: 4 } as never }, signal })), placeholderData: undefined, retry: false });
  return (
    <>
      <div className={parts.head}>
        <div className={css.title}>
          <h1 ref={heading}>{run.definition}{run.key && <span className={parts.muted}> {run.key}</span>}</h1>
          <StateChip state={stateOf(run, now)} />
        </div>
        <div className={parts.right}><Actions run={run} explained={explained as never} steps={steps} /></div>
      </div>
      <div className={css.facts}>
        <span className={parts.mono}>{run.id} <Copy text={run.id} name="id" /></span>
        <span>version <Link to={"/definitions/$name" as string} params={{ name: run.definition } as never}>{run.version}</Link></span>
        <span>queue <Link to={"/queues/$name" as string} params={{ name: run.queue } as never}>{run.queue}</Link></span>
        {run.attempt > 1 && <span>attempt <b>{run.attempt}</b></span>}
        <span>started <b><Time at={run.created_at} /></b></span>
        {run.finished_at ? <span>took <b>{duration(between(began, millis(run.finished_at) ?? began))}</b></span> : <span>for <b>{duration(between(began, now))}</b></span>}
        {run.expires_at && !run.finished_at && <span>deadline <b><Time at={run.expires_at} /></b></span>}
        {run.node && <span>on node <Link to={"/nodes/$id" as string} params={{ id: run.node } as never} className={parts.mono}>…{run.node.slice(-8)}</Link></span>}
        {run.parent && <span>started by <Link to={`/runs/${run.parent}` as string} className={parts.mono}>…{run.parent.slice(-8)}</Link></span>}
        {steps.some((step) => step.child) && <span><Link to={"/runs" as string} search={{ parent: run.id } as never}>children</Link></span>}
        {forkOf && <span>forked from <Link to={`/runs/${forkOf}` as string} className={parts.mono}>…{forkOf.slice(-8)}</Link></span>}
        {!!forks.data?.items.length && <span>forks {forks.data.items.slice(0, 3).map((fork) => <Link key={fork.id} to={`/runs/${fork.id}` as string} className={parts.mono}>…{fork.id.slice(-8)} </Link>)}{forks.data.items.length > 3 && <Link to={"/runs" as string} search={{ tag: [`${FORK}=${run.id}`], since: "all" } as never}>all</Link>}</span>}
        {run.owner && <span>owner <b>{run.owner}</b></span>}
        {run.tenant && <span>tenant <b>{run.tenant}</b></span>}
        {Object.entries(run.tags).filter(([name]) => name !== FORK).map(([name, value]) => <Link key={name} to={"/runs" as string} search={{ tag: [`${name}=${value}`] } as never}>{name}={value}</Link>)}
      </div>
    </>
  );
}
