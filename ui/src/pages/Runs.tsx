// The list of runs: what it is narrowed to stands in the address, and nowhere else.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, data } from "../api/client";
import { config } from "../app/config";
import { useMay, useMe } from "../app/Shell";
import { add, asked, fromSearch, isWindowed, read, type Term, toSearch, words } from "../lib/filter";
import { type Column, columns as columnsOf, COLUMNS, forgetView, keepColumns, keepList, saveView, views as savedViews } from "../lib/kept";
import { narrowed, NOW_AND_THEN, PAGE, sortOf } from "../lib/list";
import { counted } from "../lib/number";
import { shortcuts } from "../lib/shortcuts";
import { Ask, Field } from "../parts/Ask";
import { Menu } from "../parts/Menu";
import { css as parts, Head, Loading, Problem } from "../parts/parts";
import { BulkDialog } from "./BulkDialog";
import { FilterBar } from "./FilterBar";
import { RunRows } from "./RunRows";
import css from "./runs.module.css";
import { SelectedDialog } from "./SelectedDialog";
import { useList } from "./useList";

const NOBODY: ReadonlySet<string> = new Set();

function same(a: Term[], b: Term[]): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function RunsPage() {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const may = useMay("operate");
  const [asking, setAsking] = useState<"bulk" | "selected" | "view" | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(NOBODY);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const terms = fromSearch(search);
  const sort = sortOf(search);
  const columns = columnsOf(search.cols);
  const query = narrowed(search);
  const isHeld = asking !== null || isMenuOpen || chosen.size > 0;
  const { runs, error, isPending, rows: items, newer, goesOn, showNew } = useList(search, isHeld);
  const count = useQuery({
    queryKey: ["runs", "count", query],
    queryFn: ({ signal }) => data(api.GET("/api/v1/runs/count", { params: { query: query as never }, signal })),
    staleTime: 5000, refetchInterval: NOW_AND_THEN,
  });
  // Of which list the next page could not be had. It stays so until somebody tries again: what comes live would ask each time.
  const listed = JSON.stringify(query) + sort;
  const [broken, setBroken] = useState<string | null>(null);
  useEffect(() => {
    if (runs.isFetchNextPageError) setBroken(listed);
  }, [runs.isFetchNextPageError, listed]);
  const nextPage = async () => {
    if (!(await runs.fetchNextPage()).isFetchNextPageError) setBroken(null);
  };
  const go = (next: Term[], change: Record<string, unknown> = {}) => void navigate({ to: "/runs" as string, search: { ...toSearch(next), sort, cols: search.cols, ...change } as never });
  const set = (next: Term[]) => go(next);
  const selected = items.filter((run) => chosen.has(run.id));
  const total = count.data && (count.data.capped ? "10k+" : counted(count.data.count));
  const windowed = isWindowed(terms);
  const older = () => set(add(terms, [{ field: "since", value: "all" }]));
  // Another filter, other rows: what was chosen among the old ones is chosen no longer.
  const filter = JSON.stringify(query);
  useEffect(() => keepList(items.map((run) => run.id)), [items]);
  useEffect(() => setChosen(NOBODY), [filter]);
  return (
    <>
      <Head title="Runs">
        {total && <Total text={`${total} ${total === "1" ? "run" : "runs"}${windowed ? " in 24 hours" : ""}`} />}
        <button type="button" className={parts.button} aria-pressed={sort === "oldest"} onClick={() => go(terms, { sort: sort ? undefined : "oldest" })}>
          {sort ? "Oldest first" : "Newest first"}
        </button>
        <ColumnMenu chosen={columns} onOpen={setMenuOpen} onChange={(next) => go(terms, { cols: keepColumns(next) })} />
        {may && <button type="button" className={parts.button} onClick={() => setAsking("bulk")}>Act on all…</button>}
      </Head>
      <Shortcuts terms={terms} cols={search.cols} sort={sort} onSave={() => setAsking("view")} key={String(asking === "view")} />
      <FilterBar terms={terms} onChange={set} />
      <Problem error={error} />
      {newer > 0 && (
        <div className={css.pill}>
          <button type="button" className={`${parts.button} ${parts.small}`} onClick={() => (setChosen(NOBODY), showNew())}>↑ {newer < PAGE ? newer : `${PAGE}+`} new {newer === 1 ? "run" : "runs"}</button>
        </div>
      )}
      {isPending ? <Loading /> : items.length ? (
        <RunRows runs={items} columns={columns} chosen={may ? chosen : null} onChoose={setChosen} busy={runs.isFetchingNextPage} isAsking={runs.isFetching} isBroken={broken === listed || runs.isFetchNextPageError}
          more={runs.hasNextPage && goesOn ? () => void nextPage() : undefined}
          below={windowed && <>Runs of the last 24 hours. <button type="button" className={`${parts.button} ${parts.small}`} onClick={older}>Search older</button></>} />
      ) : error ? null : <Nothing terms={terms} onChange={set} onOlder={windowed ? older : undefined} />}
      {selected.length > 0 && (
        <div className={css.chosen} role="status">
          <strong>{selected.length} selected</strong>
          <button type="button" className={`${parts.button} ${parts.small} ${parts.primary}`} onClick={() => setAsking("selected")}>Act on {selected.length === 1 ? "it" : "them"}…</button>
          {selected.length === items.length && (count.isPlaceholderData || total !== counted(selected.length)) && (
            <button type="button" className={`${parts.button} ${parts.small}`} onClick={() => setAsking("bulk")}>Select all {total && !count.isPlaceholderData ? `${total} ` : ""}that fit…</button>
          )}
          <button type="button" className={parts.bare} onClick={() => setChosen(NOBODY)}>clear</button>
        </div>
      )}
      {asking === "bulk" && <BulkDialog terms={asked(terms)} onClose={() => setAsking(null)} />}
      {asking === "selected" && <SelectedDialog runs={selected} onClose={() => setAsking(null)} onDone={() => setChosen(NOBODY)} />}
      {asking === "view" && <SaveView terms={terms} more={{ sort, cols: search.cols }} onClose={() => setAsking(null)} />}
    </>
  );
}

/// How often whoever listens to the page is told how many runs there are.
const TELL_EVERY = 10_000;

/// How many there are: for the eye as soon as it is known, for the ear seldom enough to be listened to.
function Total({ text }: { text: string }) {
  const [told, setTold] = useState(text);
  const last = useRef(text);
  last.current = text;
  useEffect(() => {
    const timer = setInterval(() => setTold(last.current), TELL_EVERY);
    return () => clearInterval(timer);
  }, []);
  return <span className={parts.muted}><span aria-hidden="true">{text}</span><span className={parts.hidden} aria-live="polite">{told}</span></span>;
}

function Shortcuts({ terms, cols, sort, onSave }: { terms: Term[]; cols: unknown; sort: string | undefined; onSave: () => void }) {
  const [views, setViews] = useState(savedViews);
  const me = useMe();
  const known = [...shortcuts(me.data?.actor).map(([name, text]) => ({ name, search: toSearch(add([], read(text))), isOurs: true })), ...views.map((view) => ({ ...view, isOurs: false }))];
  const isAlike = ({ cols: others = "", sort: order = "" }: { cols?: string; sort?: string }) => (cols ?? "") === others && (sort ?? "") === order;
  const isKnown = known.some((view) => same(fromSearch(view.search), terms) && isAlike(view.search as object));
  return (
    <nav className={css.shortcuts} aria-label="Shortcuts">
      {known.map(({ name, search, isOurs }) => (
        <span key={`${isOurs} ${name}`}>
          <Link to={"/runs" as string} search={search as never} activeOptions={{ exact: true, includeSearch: true }} data-on={same(fromSearch(search), terms)}>{name}</Link>
          {!isOurs && <button type="button" className={parts.bare} aria-label={`Forget the view ${name}`} title="Forget this view" onClick={() => setViews(forgetView(name))}>×</button>}
        </span>
      ))}
      {!isKnown && <button type="button" className={parts.bare} onClick={onSave}>Save this view…</button>}
    </nav>
  );
}

function SaveView({ terms, more, onClose }: { terms: Term[]; more: Record<string, unknown>; onClose: () => void }) {
  const [name, setName] = useState("");
  const save = async () => {
    saveView({ name: name.trim(), search: { ...toSearch(terms), ...Object.fromEntries(Object.entries(more).filter(([, value]) => typeof value === "string")) } as Record<string, string | string[]> });
  };
  return (
    <Ask title="Save this view" action="Save" disabled={!name.trim()} onDo={save} onClose={onClose}>
      <p><code>{words(terms)}</code> <span className={parts.muted}>It is kept in this browser. To give it to others, send them the address.</span></p>
      <Field label="Name"><input className={parts.input} value={name} maxLength={40} required onChange={(event) => setName(event.target.value)} /></Field>
    </Ask>
  );
}

function ColumnMenu({ chosen, onOpen, onChange }: { chosen: Column[]; onOpen: (isOpen: boolean) => void; onChange: (next: Column[]) => void }) {
  const toggle = (name: Column) => {
    const next = (Object.keys(COLUMNS) as Column[]).filter((one) => (one === name) !== chosen.includes(one));
    if (next.length) onChange(next);
  };
  return (
    <Menu label="Columns" name="Columns" onOpen={onOpen}>
      {(Object.keys(COLUMNS) as Column[]).map((name) => (
        <label key={name} className={parts.check}><input type="checkbox" checked={chosen.includes(name)} onChange={() => toggle(name)} /> {COLUMNS[name][0]}</label>
      ))}
    </Menu>
  );
}

function Nothing({ terms, onChange, onOlder }: { terms: Term[]; onChange: (terms: Term[]) => void; onOlder?: () => void }) {
  // Whether there is anything at all decides what helps.
  const any = useQuery({ queryKey: ["runs", "any"], queryFn: () => data(api.GET("/api/v1/runs", { params: { query: { limit: 1 } as never } })) });
  if (any.isPending) return <Loading />;
  if (!any.data?.items.length) return <NoRuns />;
  return (
    <div className={`${parts.card} ${parts.empty}`}>
      <h2>No run fits{onOlder ? " in the last 24 hours" : ""}</h2>
      {terms.length > 0 && <p>Leave something away:</p>}
      <p>
        {terms.map((term) => (
          <button key={term.field + term.value} type="button" className={`${parts.button} ${parts.small}`} onClick={() => onChange(terms.filter((one) => one !== term))}>
            {term.field}:{term.value} ×
          </button>
        ))}
      </p>
      {onOlder && <p><button type="button" className={parts.button} onClick={onOlder}>Search older</button></p>}
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
      <p>More is in the <a href="https://docs.rs/outlast">documentation</a>, in <code>outlast help</code>, and in <a href={`${config.base}openapi.json`}>what the API says of itself</a>.</p>
    </div>
  );
}
