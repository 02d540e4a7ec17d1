// The head of a run: what it is, where it stands, what can be done about it, how it ended, and what its time went to.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, data, type Schemas } from "../api/client";
import { isFinal, type Run, stateOf, type Step } from "../lib/state";
import { between, duration, millis } from "../lib/time";
import { Copy, css as parts, Note, StateChip, Time, useNow, useTitle } from "../parts/parts";
import { Actions } from "./Actions";
import { askedOf } from "./History";
import { shares, type Share, taken } from "./layout";
import { isOneLife, mayBeAnew, retriedAt } from "./lives";
import type { Explained } from "./remedy";
import css from "./run.module.css";

/// The tag by which forks of a run are found.
const FORK = "outlast.fork-of";

export function Header({ run, explained, isKnown, steps }: { run: Run; explained?: Explained; isKnown: boolean; steps?: Step[] }) {
  const now = useNow();
  const made = millis(run.created_at) ?? now;
  // What it did before it continued as new is another matter: it may be years.
  const anew = useAnew(run, steps);
  const from = anew ?? made;
  const isRetried = useRetried(run, steps) !== null;
  const state = stateOf(run, now, explained?.kind);
  const since = anew !== null && " since then";
  const heading = useTitle(nameOf(run));
  const forkOf = run.tags[FORK];
  const forks = useQuery({ queryKey: ["runs", "forks", run.id], queryFn: ({ signal }) => data(api.GET("/api/v1/runs", { params: { query: { tag: [`${FORK}=${run.id}`], limit: 4 } as never }, signal })), placeholderData: undefined, retry: false });
  return (
    <>
      <div className={parts.head}>
        <div className={css.title}>
          <h1 ref={heading}>{run.definition}{run.key && <span className={parts.muted}> {run.key}</span>}</h1>
          <StateChip state={state} />
        </div>
        <div className={parts.right}>{isKnown && <Actions run={run} explained={explained} steps={steps} />}</div>
      </div>
      <div className={css.facts}>
        <span className={parts.mono}>{run.id} <Copy text={run.id} name="id" /></span>
        <span>version <Link to={"/definitions/$name" as string} params={{ name: run.definition } as never}>{run.version}</Link></span>
        <span>queue <Link to={"/queues/$name" as string} params={{ name: run.queue } as never}>{run.queue}</Link></span>
        {run.attempt > 1 && <span>attempt <b>{run.attempt}</b></span>}
        <span className={css.ticking}>created <b><Time at={run.created_at} /></b></span>
        {run.started_at && <span>started <b><Time at={run.started_at} /></b></span>}
        {run.wanted_at && run.started_at && (millis(run.wanted_at) ?? 0) > made && <span>{isRetried ? "tried again" : "was due"} <b><Time at={run.wanted_at} /></b></span>}
        {anew !== null && <span>continued as new <b><Time at={new Date(anew).toISOString()} /></b></span>}
        {state === "scheduled" && <span>due <b><Time at={run.due_at} /></b></span>}
        {run.finished_at && <span>finished <b><Time at={run.finished_at} /></b></span>}
        {run.finished_at ? <span>took <b>{duration(between(from, millis(run.finished_at) ?? from))}</b>{since}</span> : state !== "scheduled" && <span className={css.ticking}>for <b>{duration(between(from, now))}</b>{since}</span>}
        {run.expires_at && !run.finished_at && <span>deadline <b><Time at={run.expires_at} /></b></span>}
        {doingOf(run, steps).map((one) => <span key={one.name}>at <b>{one.name}</b>{one.percent != null && ` ${one.percent} %`}{one.message && `: ${one.message}`}</span>)}
        {run.node && <span>on node <Link to={"/nodes/$id" as string} params={{ id: run.node } as never} className={parts.mono}>…{run.node.slice(-8)}</Link></span>}
        {run.parent && <span>started by <Link to={`/runs/${run.parent}` as string} className={parts.mono}>…{run.parent.slice(-8)}</Link></span>}
        {steps?.some((step) => step.child) && <span><Link to={"/runs" as string} search={{ parent: run.id } as never}>children</Link></span>}
        {forkOf && <span>forked from <Link to={`/runs/${forkOf}` as string} className={parts.mono}>…{forkOf.slice(-8)}</Link></span>}
        {!!forks.data?.items.length && <span>forks {forks.data.items.slice(0, 3).map((fork) => <Link key={fork.id} to={`/runs/${fork.id}` as string} className={parts.mono}>…{fork.id.slice(-8)} </Link>)}{forks.data.items.length > 3 && <Link to={"/runs" as string} search={{ tag: [`${FORK}=${run.id}`], since: "all" } as never}>all</Link>}</span>}
        {run.owner && <span>owner <b>{run.owner}</b></span>}
        {run.tenant && <span>tenant <b>{run.tenant}</b></span>}
        {Object.entries(run.tags).filter(([name]) => name !== FORK).map(([name, value]) => <Link key={name} to={"/runs" as string} search={{ tag: [`${name}=${value}`], since: "all" } as never}>{name}={value}</Link>)}
      </div>
    </>
  );
}

/// What people call it: its definition with its key, or the end of its id.
export function nameOf(run: Pick<Run, "id" | "definition" | "key">): string {
  return `${run.definition} ${run.key ?? `…${run.id.slice(-8)}`}`;
}

/// What it is at. A turn that goes on still tells of steps that it has ended.
function doingOf(run: Run, steps: Step[] = []): Run["doing"] {
  if (isFinal(run.status)) return [];
  const ended = new Set(steps.filter((step) => step.ended_at).map((step) => step.name));
  return run.doing.filter((one) => !ended.has(one.name));
}

/// How it ended, where that is not what everybody wants.
export function Ended({ run }: { run: Run }) {
  if (!isFinal(run.status)) return null;
  if (run.status === "cancelled") {
    const why = run.cancel_reason ?? run.error?.message.replace(/^cancelled: /, "");
    return <Note><strong>Cancelled</strong>{why && <span>{why}</span>}</Note>;
  }
  if (run.error) return <div className={css.error} role="note"><strong>Failed:</strong> {run.error.message}{run.failure && <> <Link to={"/errors/$fp" as string} params={{ fp: run.failure } as never}>others like it</Link></>}</div>;
  return run.cancel_reason ? <Note><span>It was asked to stop, and ended without that: {run.cancel_reason}</span></Note> : null;
}

const NO_STEPS: Step[] = [];
const NO_ACTIONS: Schemas["Action"][] = [];

/// When it continued as new, if it did: its journal begins with that.
function useAnew(run: Run, steps: Step[] | undefined): number | null {
  const now = useNow();
  const first = useQuery({ queryKey: ["run", run.id, "first"], queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}/history", { params: { path: { id: run.id }, query: { limit: 1 } }, signal })), enabled: steps !== undefined && mayBeAnew(run, steps, now), placeholderData: undefined, retry: false });
  const entry = first.data?.items[0];
  return entry?.op === "continue" ? millis(entry.at) : null;
}

/// When it was tried again after its end, if it was.
function useRetried(run: Run, steps: Step[] = NO_STEPS): number | null {
  const actions = useQuery({ ...askedOf(run.id), enabled: run.wanted_at != null, retry: false });
  return retriedAt(run, steps, actions.data?.items ?? NO_ACTIONS);
}

const SPENT: (readonly [Share, string])[] = [["later", "before it was due"], ["queued", "in line"], ["running", "running"], ["backoff", "pausing before another attempt"], ["waiting", "waiting"], ["between", "between steps"]];

/// The colour of one that stands still, where it is not that it was held.
const TONES: Record<string, string> = { blocked: "amber", undo_failed: "red" };

/// What one that stands still has done since the last thing it did.
function stillOf(run: Run, now: number): string | undefined {
  if (run.status === "ready") return (millis(run.due_at) ?? now) > now ? "not due yet" : undefined;
  return { paused: "paused", blocked: "blocked", undo_failed: "since its undo gave up" }[run.status as string];
}

/// What the time went to.
export function Spent({ run, steps }: { run: Run; steps: Step[] }) {
  const now = useNow();
  const began = millis(run.created_at) ?? now;
  const to = millis(run.finished_at) ?? now;
  // One that continued as new has only what it did since then: what was before it was not spent in line.
  const from = useAnew(run, steps) ?? began;
  // Before a job was tried again it had a life of its own, of which little is recorded.
  const retried = useRetried(run, steps);
  const start = retried !== null && isOneLife(steps) ? Math.max(from, Math.min(retried, to)) : from;
  const still = stillOf(run, now);
  const isPaused = run.status === "paused";
  const actions = useQuery({ ...askedOf(run.id), enabled: isPaused });
  const since = isPaused ? millis(actions.data?.items.find((one) => one.action === "run.pause" && one.status < 400)?.at) : null;
  const isRunning = ["running", "undoing"].includes(run.status);
  const spent = useMemo(() => {
    const found = shares(steps, start, to, to, { is: still ? "still" : isRunning ? "running" : undefined, since: since ?? undefined });
    const all = taken(found, start, to, millis(run.started_at) ?? null, !steps.length && (isRunning || isFinal(run.status)), millis(run.wanted_at) ?? null);
    return { ...all, later: all.later + start - from };
  }, [steps, from, start, to, still, since, isRunning, run.status, run.started_at, run.wanted_at]);
  const whole = Math.max(1, to - from);
  const word = (share: Share, word: string) => (share === "later" && retried !== null ? "before it was tried again" : word);
  const told = [...SPENT.map(([share, usual]) => [share, word(share, usual)] as const), ["still", still ?? ""] as const, ["all", "in all"] as const].filter(([share]) => spent[share] > 0);
  return (
    <div className={css.spent} role="img" aria-label={`Time: ${told.map(([share, word]) => `${duration(spent[share])} ${word}`).join(", ")}`}>
      <div>{told.map(([share]) => <span key={share} data-share={share} data-tone={TONES[run.status]} style={{ flexGrow: Math.max(spent[share] / whole, 0.004) }} />)}</div>
      <ul>{told.map(([share, word]) => <li key={share}><i data-share={share} data-tone={TONES[run.status]} />{duration(spent[share])} {word}</li>)}</ul>
    </div>
  );
}
