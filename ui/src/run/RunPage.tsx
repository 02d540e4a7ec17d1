// One run: where it stands and why, what can be done about it, and what it did.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, ApiError, data, type Schemas } from "../api/client";
import { useKeys } from "../app/keys";
import { useTopics } from "../app/live";
import { neighbour } from "../lib/kept";
import { isFinal, type Run, stateOf } from "../lib/state";
import { between, duration, millis } from "../lib/time";
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
import { Timeline } from "./Timeline";

const TABS = ["timeline", "history", "logs", "raw"] as const;

export function useRun(id: string) {
  return useQuery({ queryKey: ["run", id], queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}", { params: { path: { id } }, signal })), placeholderData: undefined });
}

export function useSteps(id: string, enabled = true) {
  return useQuery({
    queryKey: ["run", id, "steps"],
    queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}/steps", { params: { path: { id } }, signal })),
    placeholderData: undefined,
    enabled,
  });
}

export function RunPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const search = useSearch({ strict: false }) as { tab?: string; step?: string; idle?: string; zoom?: string };
  const navigate = useNavigate();
  useTopics(`run:${id}`, `logs:${id}`);
  const run = useRun(id);
  useKeys((key) => {
    const next = key === "[" ? neighbour(id, -1) : key === "]" ? neighbour(id, 1) : undefined;
    if (!next) return false;
    void navigate({ to: `/runs/${next}` as string });
    return true;
  });
  const steps = useSteps(id);
  const explained = useExplained(id, run.data ? !isFinal(run.data.status) : false);
  const tab = TABS.find((one) => one === search.tab) ?? "timeline";
  const to = (change: Record<string, string | undefined>) => ({ ...search, ...change }) as never;
  const select = (step: string | undefined) => void navigate({ to: `/runs/${id}` as string, search: to({ step }), replace: true });

  if (!run.data) {
    if (run.error instanceof ApiError && run.error.status === 404) {
      return <div className={parts.empty}><h2>There is no such run</h2><p>It may have been deleted, or belong to another database. <Link to={"/runs" as string}>To the runs</Link></p></div>;
    }
    return run.error ? <Problem error={run.error} /> : <Loading />;
  }
  const chosen = steps.data?.items.find((step) => step.name === search.step);
  return (
    <>
      <Header run={run.data} explained={explained.data} steps={steps.data?.items ?? []} />
      {steps.data && <Spent run={run.data} steps={steps.data.items} />}
      <div className={css.stack}>
        {!isFinal(run.data.status) && explained.data && <Explain explained={explained.data} run={run.data} />}
        {run.data.status === "paused" && run.data.pause_reason && <Note>Paused: {run.data.pause_reason}</Note>}
        {run.data.cancel_reason && !run.data.error && <Note>Cancelled: {run.data.cancel_reason}</Note>}
        {run.data.error && <div className={css.error} role="note"><strong>{run.data.status === "cancelled" ? "Cancelled" : "Failed"}:</strong> {run.data.error.message}</div>}
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
        <div className={css.split} data-open={!!chosen}>
          <div>
            <Timeline run={run.data} steps={steps.data?.items ?? []} compress={search.idle !== "1"} zoom={search.zoom} onZoom={(zoom) => void navigate({ to: `/runs/${id}` as string, search: to({ zoom }), replace: true })} chosen={search.step} onChoose={select} />
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

const SPENT: [Share, string][] = [["queued", "in line"], ["running", "running"], ["backoff", "pausing before another attempt"], ["waiting", "waiting"]];

/// What the time went to.
function Spent({ run, steps }: { run: Run; steps: Schemas["Step"][] }) {
  const now = useNow();
  const from = millis(run.created_at) ?? now;
  const to = millis(run.finished_at) ?? now;
  const spent = useMemo(() => shares(steps, from, to, to), [steps, from, to]);
  const whole = Math.max(1, to - from);
  const told = SPENT.filter(([share]) => spent[share] > 0);
  return (
    <div className={css.spent} role="img" aria-label={`Time: ${told.map(([share, word]) => `${duration(spent[share])} ${word}`).join(", ")}`}>
      <div>{told.map(([share]) => <span key={share} data-share={share} style={{ flexGrow: Math.max(spent[share] / whole, 0.004) }} />)}</div>
      <ul>{told.map(([share, word]) => <li key={share}><i data-share={share} />{duration(spent[share])} {word}</li>)}</ul>
    </div>
  );
}

function Payloads({ run }: { run: Run }) {
  return (
    <div className={css.split} style={{ marginTop: 14, gridTemplateColumns: "repeat(auto-fit, minmax(280px, 1fr))" }}>
      <section className={css.panel} style={{ position: "static" }}><h2>Input</h2><JsonView value={run.input ?? null} name="input" /></section>
      {run.status === "completed" && <section className={css.panel} style={{ position: "static" }}><h2>Output</h2><JsonView value={run.output ?? null} name="output" /></section>}
    </div>
  );
}

function Header({ run, explained, steps }: { run: Run; explained: unknown; steps: Schemas["Step"][] }) {
  const now = useNow();
  const began = millis(run.created_at) ?? now;
  const heading = useTitle();
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
        {run.owner && <span>owner <b>{run.owner}</b></span>}
        {run.tenant && <span>tenant <b>{run.tenant}</b></span>}
        {Object.entries(run.tags).map(([name, value]) => <Link key={name} to={"/runs" as string} search={{ tag: [`${name}=${value}`] } as never}>{name}={value}</Link>)}
      </div>
    </>
  );
}
