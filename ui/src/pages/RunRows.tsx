// The rows of the list: only those on the screen are in the document. Each is a link, with a box to choose it by.
import { useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type MouseEvent, type ReactNode, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { config } from "../app/config";
import { useKeys } from "../app/keys";
import { type Column, COLUMNS } from "../lib/kept";
import { isFinal, type Run, stateOf, wrongOf } from "../lib/state";
import { between, duration, millis } from "../lib/time";
import { waiting } from "../lib/wait";
import { useUtc } from "../lib/zone";
import { Copy, css as parts, StateChip, TimeAt, useFirstPaint, useNow } from "../parts/parts";
import css from "./runs.module.css";

const ROW = 36;
/// What stands above the rows at least.
const HEAD = 180;

interface Props {
  runs: Run[];
  columns: Column[];
  /// Nobody who only looks has anything to choose for.
  chosen: ReadonlySet<string> | null;
  onChoose: (ids: Set<string>) => void;
  more?: () => void;
  busy: boolean;
  /// Something of the list is on its way. What was asked for then would be given up for it, or it for that.
  isAsking: boolean;
  /// The next page could not be had: it is asked for again when somebody says so, and not before.
  isBroken: boolean;
  below: ReactNode;
}

export function RunRows({ runs, columns, chosen, onChoose, more, busy, isAsking, isBroken, below }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [above, setAbove] = useState(0);
  const last = useRef<number | null>(null);
  // Looked at when the first rows are on the screen, like where they are scrolled to: before that the browser would have to lay out
  // everything for it.
  const isPainted = useFirstPaint();
  const early = useRef<{ scrollOffset: number | null }>(null);
  useLayoutEffect(() => {
    if (!isPainted) return;
    setAbove(box.current?.offsetTop ?? 0);
    // Who has scrolled by then is not taken back.
    if (early.current) early.current.scrollOffset = document.getElementById("main")?.scrollTop ?? 0;
    early.current = null;
  }, [isPainted]);
  const rows = useVirtualizer({
    count: runs.length,
    getScrollElement: () => (isPainted ? document.getElementById("main") : null),
    estimateSize: () => ROW,
    scrollMargin: above,
    // Nobody scrolls before there is something to be seen.
    overscan: isPainted ? 10 : 1,
    // Until it is measured, what is below the bars and the filter: so the first rows are there at once, and no others.
    initialRect: { width: window.innerWidth, height: Math.max(ROW, window.innerHeight - HEAD) },
    getItemKey: (index) => runs[index]!.id,
  });
  if (!isPainted) early.current = rows;
  const shown = rows.getVirtualItems();
  const isAtEnd = (shown.at(-1)?.index ?? 0) >= runs.length - 1;
  useEffect(() => {
    if (isAtEnd && more && !isAsking && !isBroken) more();
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isAtEnd, isAsking, isBroken, !more]);

  /// Chooses one, or all from the last one on.
  const choose = (index: number, isRange: boolean) => {
    if (!chosen) return;
    const next = new Set(chosen);
    const isOn = !chosen.has(runs[index]!.id);
    const from = isRange && last.current !== null ? Math.min(last.current, runs.length - 1) : index;
    for (let at = Math.min(from, index); at <= Math.max(from, index); at++) {
      if (isOn) next.add(runs[at]!.id);
      else next.delete(runs[at]!.id);
    }
    last.current = index;
    onChoose(next);
  };
  useKeys((key) => {
    const links = [...(box.current?.querySelectorAll<HTMLElement>("a[data-index]") ?? [])].sort((a, b) => Number(a.dataset.index) - Number(b.dataset.index));
    // On a row, or on the box beside it.
    const at = links.findIndex((link) => link.parentElement!.contains(document.activeElement));
    if (key === "j" || key === "k") links[at < 0 ? firstSeen(links) : at + (key === "j" ? 1 : -1)]?.focus();
    else if (key === "x" && at >= 0) choose(Number(links[at]!.dataset.index), false);
    else if (key === "Escape" && chosen?.size) onChoose(new Set());
    else return false;
    return true;
  });
  const all = chosen !== null && runs.length > 0 && runs.every((run) => chosen.has(run.id));
  // Rows are drawn again only where something of theirs has changed.
  const named = columns.join();
  const shape = useMemo(() => ({ columns, grid: { gridTemplateColumns: `122px minmax(104px, 1.2fr) ${columns.map((name) => COLUMNS[name][2]).join(" ")}` } }), [named]); // eslint-disable-line react-hooks/exhaustive-deps
  const { grid } = shape;
  const hasIds = columns.includes("id");
  const navigate = useNavigate();
  const open = useCallback((id: string) => void navigate({ to: "/runs/$id" as string, params: { id } as never }), [navigate]);
  return (
    <div className={parts.card} style={{ overflow: "visible" }}>
      <div className={`${css.line} ${css.headRow}`} data-chosen={chosen !== null}>
        {chosen && <input type="checkbox" aria-label="Select all that are shown" checked={all} onChange={() => onChoose(all ? new Set() : new Set(runs.map((run) => run.id)))} />}
        <div className={css.row} style={grid} aria-hidden="true">
          <span>State</span><span>Definition</span>{columns.map((name) => <span key={name} data-col={name}>{COLUMNS[name][0]}</span>)}
        </div>
        {hasIds && <span className={css.copy} />}
      </div>
      <div ref={box} className={css.rows} style={{ height: rows.getTotalSize() }} role="list" aria-label="Runs">
        {shown.map((item) => {
          const run = runs[item.index]!;
          return (
            <div role="listitem" key={item.key} className={`${css.line} ${css.item}`} data-chosen={chosen !== null} data-on={chosen?.has(run.id)} style={{ transform: `translateY(${item.start - rows.options.scrollMargin}px)` }}>
              {chosen && (
                <input type="checkbox" aria-label={`Select ${run.definition} ${run.key ?? run.id.slice(-8)}`} checked={chosen.has(run.id)}
                  onChange={() => {}} onClick={(event: MouseEvent) => choose(item.index, event.shiftKey)} />
              )}
              <Row run={run} index={item.index} shape={shape} open={open} />
              {/* Nothing to be pressed stands inside of a link. */}
              {hasIds && <span className={css.copy}><Copy text={run.id} name={`the id of ${run.definition} ${run.key ?? run.id.slice(-8)}`} /></span>}
            </div>
          );
        })}
      </div>
      <div className={css.more} role="status">{busy ? "Loading…" : more && isBroken ? <>There is more, and it could not be had. <button type="button" className={`${parts.button} ${parts.small}`} onClick={more}>Try again</button></> : !more && below}</div>
    </div>
  );
}

/// The first of the rows that is on the screen, below what stays there: some that were scrolled away are in the document too.
function firstSeen(links: HTMLElement[]): number {
  const edge = (document.getElementById("main")?.getBoundingClientRect().top ?? 0) + ROW;
  return links.findIndex((link) => link.getBoundingClientRect().top >= edge);
}

interface Shape {
  columns: Column[];
  grid: { gridTemplateColumns: string };
}

/// A plain link, which the browser opens where somebody wants another tab. The router's own costs more than the rest of the row.
const Row = memo(function Row({ run, index, shape: { columns, grid }, open }: { run: Run; index: number; shape: Shape; open: (id: string) => void }) {
  const [now, utc] = [useNow(), useUtc()];
  const click = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(run.id);
  };
  return (
    <a href={`${config.base}runs/${run.id}`} className={css.row} style={grid} data-index={index} onClick={click}>
      <span><StateChip state={stateOf(run, now)} /></span>
      <span title={`${run.definition} version ${run.version}`}><span className={css.def}>{run.definition}</span>{run.version > 1 && <span className={parts.muted}> @{run.version}</span>}</span>
      {columns.map((name) => <Cell key={name} name={name} run={run} now={now} utc={utc} />)}
    </a>
  );
});

function Cell({ name, run, now, utc }: { name: Column; run: Run; now: number; utc: boolean }) {
  const short = (id: string | null | undefined) => (id ? `…${id.slice(-8)}` : "");
  switch (name) {
    case "key":
      return <span data-col={name} title={run.id} className={run.key ? "" : `${parts.mono} ${parts.muted}`}>{run.key ?? short(run.id)}</span>;
    case "id":
      return <span data-col={name} title={run.id} className={`${parts.mono} ${parts.muted}`}>{short(run.id)}</span>;
    case "created":
      return <span data-col={name} className={parts.muted}><TimeAt at={run.created_at} now={now} utc={utc} /></span>;
    case "took":
      if (run.waiting_for) {
        const { short, whole } = waiting(run.waiting_for, now);
        return <span data-col={name} className={parts.muted} title={whole}>{short}</span>;
      }
      return <span data-col={name} className={parts.muted}>{duration(between(millis(run.created_at) ?? now, millis(run.finished_at) ?? now))}</span>;
    case "tags":
      return (
        <span data-col={name}>
          {Object.entries(run.tags).map(([name, value]) => <span key={name} className={css.tag}>{name}={value}</span>)}
          {wrongOf(run) ? <span className={parts.muted} title={wrongOf(run)}>{wrongOf(run)}</span>
            : doing(run) ? <span className={parts.muted} title={doing(run)}>{doing(run)}</span> : null}
        </span>
      );
    default: {
      const texts = { queue: run.queue, attempt: run.attempt > 1 ? String(run.attempt) : "", node: short(run.node), priority: String(run.priority), parent: short(run.parent), error: wrongOf(run) ?? "", owner: run.owner ?? "", tenant: run.tenant, schedule: run.tags.schedule ?? "" };
      return <span data-col={name} className={parts.muted} title={texts[name]}>{texts[name]}</span>;
    }
  }
}

/// What it says that it is doing: what it began last.
function doing(run: Run): string | undefined {
  const one = isFinal(run.status) ? undefined : run.doing.at(-1);
  return one && (one.message || one.percent != null) ? `${one.name}: ${[one.percent != null && `${one.percent} %`, one.message].filter(Boolean).join(", ")}` : undefined;
}
