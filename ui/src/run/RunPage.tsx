// One run: where it stands and why, what can be done about it, and what it did.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type CSSProperties, useEffect, useRef, useState } from "react";
import { api, ApiError, data } from "../api/client";
import { useKeys } from "../app/keys";
import { useTopics } from "../app/live";
import { keepOpened, neighbour } from "../lib/kept";
import { BRIEF } from "../lib/payload";
import { isFinal, type Run, type Step, stepKey, stepOf } from "../lib/state";
import { Divider, useShare } from "../parts/Divider";
import { Payload } from "../parts/Payload";
import { css as parts, Loading, Note, Problem } from "../parts/parts";
import { Explain, useExplained } from "./Explain";
import { Ended, Header, nameOf, Spent } from "./Header";
import { HistoryTab } from "./History";
import { LogsTab } from "./Logs";
import { RawTab } from "./Raw";
import type { Shown } from "./opened";
import css from "./run.module.css";
import { StepPanel } from "./StepPanel";
import { stepsOf } from "./steps";
import { Timeline } from "./Timeline";

/// How much of the width the timeline has beside a step, in percent, unless somebody moved the divider.
const PAGE = 61;
/// For how long nothing is drawn before everything that stands above it is known.
const PATIENCE = 1000;
const NO_STEPS: Step[] = [];
const TABS = ["timeline", "history", "logs", "raw"] as const;

/// What of the page stands in its address: a copied link shows the same.
type Search = Shown & Partial<Record<"tab" | "step" | "attempt" | "idle" | "kind" | "level" | "text" | "logstep", string>>;

export function useRun(id: string) {
  return useQuery({ queryKey: ["run", id], queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}", { params: { path: { id }, query: { preview: BRIEF } }, signal })), placeholderData: undefined });
}

export function RunPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const search = useSearch({ strict: false }) as Search;
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
  const name = run.data && nameOf(run.data);
  useEffect(() => {
    if (name) keepOpened({ id, name });
  }, [id, name]);
  // Asked for with the run: what it says stands above everything else, which would move when it comes.
  const explained = useExplained(id, !run.data || !isFinal(run.data.status));
  const isKnown = !!run.data && (isFinal(run.data.status) || explained.isFetched);
  const late = useLate(id);
  const drawn = useRef<string>(undefined);
  if ((isKnown && (steps.data || steps.error)) || late) drawn.current = id;
  const tab = TABS.find((one) => one === search.tab) ?? "timeline";
  const to = (change: Search) => ({ ...search, ...change }) as never;
  // Added to what the address will be: one change may follow another before that is drawn.
  const change = (next: (before: Search) => Search) => void navigate({ to: `/runs/${id}` as string, search: ((before: Search) => ({ ...before, ...next(before) })) as never, replace: true });
  const set = (next: Search) => change(() => next);
  // An attempt is one of its step. Which one somebody has chosen here, and did not find in the address.
  const sought = useRef<string>(undefined);
  const select = (step: string | undefined) => {
    sought.current = step;
    set({ step, attempt: undefined });
  };

  if (!run.data) {
    if (run.error instanceof ApiError && (run.error.status === 404 || run.error.code === "invalid_id")) {
      return <div className={parts.empty}><h1>There is no such run</h1><p>{run.error.code === "invalid_id" ? `${run.error.message}. ` : ""}It may have been deleted, or belong to another database. <Link to={"/runs" as string}>To the runs</Link></p></div>;
    }
    return run.error ? <Problem error={run.error} /> : <Loading />;
  }
  if (drawn.current !== id) return <Loading />;
  const isAll = steps.data?.items.length === steps.data?.total;
  const chosen = stepOf(steps.data?.items ?? [], search.step);
  return (
    <>
      <Header run={run.data} explained={explained.data} isKnown={isKnown} steps={steps.data?.items ?? (steps.error ? [] : undefined)} />
      {steps.data && <Spent run={run.data} steps={steps.data.items} />}
      <div className={css.stack}>
        {!isFinal(run.data.status) && explained.data && <Explain explained={explained.data} run={run.data} />}
        {run.data.pause_reason && <Note tone="amber"><span>It was asked to pause, and does as soon as what it is doing is done: {run.data.pause_reason}</span></Note>}
        <Ended run={run.data} />
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
            <input type="checkbox" checked={search.idle !== "1"} onChange={(event) => set({ idle: event.target.checked ? undefined : "1" })} />
            Compress idle time
          </label>
        )}
      </nav>
      {tab === "timeline" && (
        <div className={css.split} data-open={!!chosen} style={{ "--page": `${page}%` } as CSSProperties}>
          {chosen && <Divider label="Room for the timeline" percent={page} usual={PAGE} onMove={setPage} />}
          <div>
            <Timeline run={run.data} steps={steps.data?.items ?? []} total={steps.data?.total} compress={search.idle !== "1"} shown={search} onShow={change} chosen={chosen && stepKey(chosen)} onChoose={select} />
            {!chosen && <Payloads run={run.data} />}
          </div>
          {chosen && <StepPanel run={run.data} step={chosen} place={isAll ? steps.data!.items.indexOf(chosen) : undefined} attempt={search.attempt} onAttempt={(attempt) => set({ attempt })} isSought={sought.current === stepKey(chosen)} onClose={() => select(undefined)} />}
        </div>
      )}
      {tab === "history" && <HistoryTab key={id} id={id} kind={search.kind} onKind={(kind) => set({ kind })} />}
      {tab === "logs" && <LogsTab key={id} id={id} steps={steps.data?.items ?? NO_STEPS} level={search.level} text={search.text} logstep={search.logstep} onFilter={set} />}
      {tab === "raw" && <RawTab run={run.data} />}
    </>
  );
}

/// Whether somebody has waited for so long that what is there is better than what stands still.
function useLate(id: string): boolean {
  const [late, setLate] = useState<string>();
  useEffect(() => {
    const timer = setTimeout(() => setLate(id), PATIENCE);
    return () => clearTimeout(timer);
  }, [id]);
  return late === id;
}

export function Payloads({ run }: { run: Run }) {
  return (
    <div className={css.split} style={{ marginTop: 14, gridTemplateColumns: "repeat(auto-fit, minmax(280px, 1fr))" }}>
      <section className={css.panel} style={{ position: "static" }}><h2>Input</h2><Payload run={run.id} of="input" name="input" value={run.input ?? null} preview={run.previews?.input} /></section>
      {run.status === "completed" && <section className={css.panel} style={{ position: "static" }}><h2>Output</h2><Payload run={run.id} of="output" name="output" value={run.output ?? null} preview={run.previews?.output} /></section>}
    </div>
  );
}
