// The list of runs: what it is narrowed to stands in the address, and nowhere else.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import { api, data } from "../api/client";
import { useKeys } from "../app/keys";
import { useMay } from "../app/Shell";
import { add, fromSearch, read, STATUSES, type Term, toSearch } from "../lib/filter";
import { type Run, stateOf } from "../lib/state";
import { between, duration, millis } from "../lib/time";
import { css as parts, Head, Loading, Problem, StateChip, Time, useNow } from "../parts/parts";
import { BulkDialog } from "./BulkDialog";
import css from "./runs.module.css";

const ROW = 36;
const SHORTCUTS: [string, string][] = [
  ["All", ""],
  ["Active", "status:ready,running"],
  ["Waiting", "status:waiting,paused"],
  ["Stuck", "status:blocked,undo_failed"],
  ["Failed", "status:failed"],
  ["Failed 24 h", "status:failed since:24h"],
  ["Done", "status:completed,cancelled"],
];

function same(a: Term[], b: Term[]): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function RunsPage() {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const may = useMay("operate");
  const [bulk, setBulk] = useState(false);
  const terms = fromSearch(search);
  const sort = search.sort === "oldest" ? "oldest" : undefined;
  const query = toSearch(terms) as Record<string, string>;
  const runs = useInfiniteQuery({
    queryKey: ["runs", "list", query, sort],
    queryFn: ({ pageParam, signal }) =>
      data(api.GET("/api/v1/runs", { params: { query: { ...query, sort, limit: 100, cursor: pageParam || undefined } as never }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
  const count = useQuery({
    queryKey: ["runs", "count", query],
    queryFn: ({ signal }) => data(api.GET("/api/v1/runs/count", { params: { query: query as never }, signal })),
    staleTime: 5000,
  });
  const set = (next: Term[]) => void navigate({ to: "/runs" as string, search: { ...toSearch(next), sort } as never });
  const found = runs.data?.pages.flatMap((page) => page.items) ?? [];
  const [items, newer] = useSteady(found, bulk, JSON.stringify(query) + sort);
  const total = count.data && (count.data.capped ? "10k+" : count.data.count.toLocaleString("en"));
  return (
    <>
      <Head title="Runs">
        {total && <span className={parts.muted} aria-live="off">{total} {total === "1" ? "run" : "runs"}</span>}
        <button type="button" className={parts.button} aria-pressed={sort === "oldest"}
          onClick={() => void navigate({ to: "/runs" as string, search: { ...toSearch(terms), sort: sort ? undefined : "oldest" } as never })}>
          {sort ? "Oldest first" : "Newest first"}
        </button>
        {may && <button type="button" className={parts.button} onClick={() => setBulk(true)}>Act on all…</button>}
      </Head>
      <nav className={css.shortcuts} aria-label="Shortcuts">
        {SHORTCUTS.map(([name, words]) => {
          const wanted = add([], read(words));
          return (
            <Link key={name} to={"/runs" as string} search={toSearch(wanted) as never} activeOptions={{ exact: true, includeSearch: true }} data-on={same(wanted, terms)}>
              {name}
            </Link>
          );
        })}
      </nav>
      <FilterBar terms={terms} onChange={set} />
      <Problem error={runs.error} />
      {newer > 0 && (
        <div className={css.pill}>
          <button type="button" className={`${parts.button} ${parts.small}`} onClick={() => document.getElementById("main")?.scrollTo({ top: 0 })}>↑ {newer} new</button>
        </div>
      )}
      {runs.isPending ? <Loading /> : items.length ? (
        <Rows runs={items} more={runs.hasNextPage ? () => void runs.fetchNextPage() : undefined} busy={runs.isFetchingNextPage} />
      ) : runs.error ? null : terms.length ? (
        <Nothing terms={terms} onChange={set} />
      ) : <NoRuns />}
      {bulk && <BulkDialog terms={terms} onClose={() => setBulk(false)} />}
    </>
  );
}

/// Rows do not move under somebody's eyes: who has scrolled down, or has a dialog open, is told how many are new instead.
function useSteady(runs: Run[], isHeld: boolean, key: string): [Run[], number] {
  const [isDown, setDown] = useState(false);
  const first = useRef<{ key: string; id?: string }>({ key });
  useEffect(() => {
    const main = document.getElementById("main");
    const look = () => setDown((main?.scrollTop ?? 0) > 200);
    main?.addEventListener("scroll", look, { passive: true });
    return () => main?.removeEventListener("scroll", look);
  }, []);
  if (first.current.key !== key || !(isDown || isHeld)) first.current = { key, id: runs[0]?.id };
  const newer = Math.max(0, runs.findIndex((run) => run.id === first.current.id));
  return [newer ? runs.slice(newer) : runs, newer];
}

function FilterBar({ terms, onChange }: { terms: Term[]; onChange: (terms: Term[]) => void }) {
  const [text, setText] = useState("");
  const definitions = useQuery({ queryKey: ["definitions"], queryFn: () => data(api.GET("/api/v1/definitions")), staleTime: 60_000 });
  const queues = useQuery({ queryKey: ["queues"], queryFn: () => data(api.GET("/api/v1/queues")), staleTime: 60_000, retry: false });
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && text.trim()) {
      onChange(add(terms, read(text)));
      setText("");
    } else if (event.key === "Backspace" && !text && terms.length) onChange(terms.slice(0, -1));
    else if (event.key === "Escape") setText("");
  };
  const hints = [
    ...STATUSES.map((status) => `status:${status}`),
    ...new Set((definitions.data?.items ?? []).map((one) => `def:${one.name}`)),
    ...(queues.data?.items ?? []).map((one) => `queue:${one.name}`),
    "key:", "tag:", "parent:", "since:1h", "since:24h", "until:",
  ];
  return (
    <div className={css.filter} role="search">
      {terms.map((term) => (
        <span key={term.field + term.value} className={css.term}>
          <b>{term.field}:</b>{term.value}
          <button type="button" aria-label={`Remove ${term.field}:${term.value}`} onClick={() => onChange(terms.filter((one) => one !== term))}>×</button>
        </span>
      ))}
      <input id="filter" list="filter-hints" value={text} aria-label="Filter runs" placeholder={terms.length ? "" : "status:failed  def:order  queue:mail  tag:city=Bern  since:2h, or an id or key"}
        onChange={(event) => setText(event.target.value)} onKeyDown={press} />
      <datalist id="filter-hints">{hints.map((hint) => <option key={hint} value={hint} />)}</datalist>
    </div>
  );
}

function Rows({ runs, more, busy }: { runs: Run[]; more?: () => void; busy: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const [above, setAbove] = useState(0);
  useLayoutEffect(() => setAbove(box.current?.offsetTop ?? 0), []);
  const rows = useVirtualizer({
    count: runs.length,
    getScrollElement: () => document.getElementById("main"),
    estimateSize: () => ROW,
    scrollMargin: above,
    overscan: 10,
    getItemKey: (index) => runs[index]!.id,
  });
  useKeys((key) => {
    if (key !== "j" && key !== "k") return false;
    const links = [...(box.current?.querySelectorAll<HTMLElement>("a[data-index]") ?? [])].sort((a, b) => Number(a.dataset.index) - Number(b.dataset.index));
    const at = links.indexOf(document.activeElement as HTMLElement);
    links[at < 0 ? 0 : at + (key === "j" ? 1 : -1)]?.focus();
    return true;
  });
  return (
    <div className={parts.card} style={{ overflow: "visible" }}>
      <div className={`${css.row} ${css.headRow}`} aria-hidden="true">
        <span>State</span><span>Definition</span><span>Key or id</span><span>Queue</span><span>Attempt</span><span>Started</span><span>Took</span><span>Tags</span>
      </div>
      <div ref={box} className={css.rows} style={{ height: rows.getTotalSize() }} role="list" aria-label="Runs">
        {rows.getVirtualItems().map((item) => (
          <div role="listitem" key={item.key} className={css.item} style={{ transform: `translateY(${item.start - rows.options.scrollMargin}px)` }}>
            <Row run={runs[item.index]!} index={item.index} />
          </div>
        ))}
      </div>
      {more && <div className={css.more}><button type="button" className={parts.button} disabled={busy} onClick={more}>{busy ? "Loading…" : "More"}</button></div>}
    </div>
  );
}

function Row({ run, index }: { run: Run; index: number }) {
  const now = useNow();
  const state = stateOf(run, now);
  const took = between(millis(run.created_at) ?? now, millis(run.finished_at) ?? now);
  return (
    <Link to={`/runs/${run.id}` as string} className={css.row} data-index={index} preload={false}>
      <span><StateChip state={state} /></span>
      <span title={`${run.definition} version ${run.version}`}><span className={css.def}>{run.definition}</span>{run.version > 1 && <span className={parts.muted}> @{run.version}</span>}</span>
      <span title={run.id} className={run.key ? "" : `${parts.mono} ${parts.muted}`}>{run.key ?? `…${run.id.slice(-8)}`}</span>
      <span className={parts.muted}>{run.queue}</span>
      <span className={parts.muted}>{run.attempt > 1 ? run.attempt : ""}</span>
      <span className={parts.muted}><Time at={run.created_at} /></span>
      <span className={parts.muted}>{duration(took)}</span>
      <span>
        {run.error ? <span className={parts.muted} title={run.error.message}>{run.error.message}</span>
          : Object.entries(run.tags).map(([name, value]) => <span key={name} className={css.tag}>{name}={value}</span>)}
      </span>
    </Link>
  );
}

function Nothing({ terms, onChange }: { terms: Term[]; onChange: (terms: Term[]) => void }) {
  return (
    <div className={`${parts.card} ${parts.empty}`}>
      <h2>No run fits</h2>
      <p>Leave something away:</p>
      <p>
        {terms.map((term) => (
          <button key={term.field + term.value} type="button" className={`${parts.button} ${parts.small}`} onClick={() => onChange(terms.filter((one) => one !== term))}>
            {term.field}:{term.value} ×
          </button>
        ))}
      </p>
    </div>
  );
}

const SAMPLE = `#[outlast::workflow]
async fn greet(ctx: Ctx, name: String) -> Result<String, AnyError> {
    Ok(ctx.step("greet", |_| hello(name)).await?)
}`;

function NoRuns() {
  return (
    <div className={`${parts.card} ${parts.empty}`}>
      <h2>No runs yet</h2>
      <p>A workflow is a function whose steps are recorded:</p>
      <pre>{SAMPLE}</pre>
      <p>Start one with <code>outlast start greet --input '"you"'</code>, or run <code>outlast dev</code> for samples.</p>
    </div>
  );
}
