// What a run did, over time. Only the rows on the screen are in the document, and only those are placed.
import { useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type PointerEvent, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useKeys } from "../app/keys";
import { useTopics } from "../app/live";
import { isFinal, type Run, type State, STATES, stateOf, type Step, stepKey } from "../lib/state";
import { absolute, between, duration, millis } from "../lib/time";
import { useUtc } from "../lib/zone";
import { Divider, useShare } from "../parts/Divider";
import { css as parts, Icon, useNow } from "../parts/parts";
import { type Band, bars, labels, segments, wholeScale, type Bar, type Scale } from "./layout";
import css from "./run.module.css";
import { stepsOf } from "./steps";

const ROW = 30;
/// How much of the width names have, in percent, unless somebody moved the divider. On a telephone they need more of it.
const NAMES = innerWidth < 700 ? 44 : 34;
/// How many children are opened at once: each is asked for.
const MOST_OPEN = 50;
/// Of how many of them is heard as they go on; the server bounds it. The others are asked again now and then.
const MOST_HEARD = 8;
const ASK_AGAIN = 3000;
const BOX = "M4 4h8v8H4z";
const KINDS: Record<string, string> = {
  step: BOX, job: BOX, transaction: `${BOX}M7 7h2v2H7z`, sleep: STATES.scheduled.icon, event: "M2 4h12v8H2zM2 4l6 5 6-5", promise: "m8 3 5 5-5 5-5-5z",
  child: "M4 2v8h8M9 7l3 3-3 3", send: "M2 8h11M9 4l4 4-4 4", cancel: STATES.cancelled.icon, undo: STATES.undoing.icon, revise: "m3 13 1-3 7-7 2 2-7 7z",
};
const OTHER = "M4 6.5h8M4 9.5h8";

/// A line: of this run, or of a child that was opened.
interface Line {
  step: Step;
  depth: number;
}

interface Props {
  run: Run;
  steps: Step[];
  /// How many there are, where not all have come yet.
  total?: number;
  compress: boolean;
  /// The stretch that is shown, in milliseconds from the start: `200-1500`.
  zoom?: string;
  onZoom: (zoom: string | undefined) => void;
  chosen?: string;
  onChoose: (step: string | undefined) => void;
  /// Of a run that is in a file: its children are not here.
  isAlone?: boolean;
}

export function Timeline({ run, steps, total, compress, zoom, onZoom, chosen, onChoose, isAlone = false }: Props) {
  const second = useNow();
  const utc = useUtc();
  const done = isFinal(run.status);
  const now = done ? (millis(run.finished_at) ?? second) : second;
  const from = millis(run.created_at) ?? now;
  const view = useRef<HTMLDivElement>(null);
  const track = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  const [open, setOpen] = useState<Set<number>>(new Set());
  // Children that somebody wants to see. They are asked for then, and not before.
  const [wanted, setWanted] = useState<ReadonlySet<string>>(new Set());
  const heard = [...wanted].slice(0, MOST_HEARD);
  useTopics(...heard.map((id) => `run:${id}`));
  const isOn = (found: { items: Step[] } | undefined) => !done && !!found?.items.some((step) => !step.ended_at);
  const found = useQueries({
    queries: [...wanted].map((id) => ({ ...stepsOf(id), refetchInterval: (query: { state: { data?: { items: Step[] } } }) => !heard.includes(id) && isOn(query.state.data) ? ASK_AGAIN : false as const })),
    combine: stepsFound,
  });
  const children = useMemo(() => new Map([...wanted].map((id, at) => [id, found[at] ?? []])), [wanted, found]);
  const [names, setNames] = useShare("names", NAMES);
  useLayoutEffect(() => {
    if (!track.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(100, entry!.contentRect.width)));
    observer.observe(track.current);
    return () => observer.disconnect();
  }, []);
  const lines = useMemo<Line[]>(() => {
    const below = (steps: Step[], depth: number): Line[] =>
      steps.flatMap((step) => [{ step, depth }, ...(step.child && children.has(step.child) ? below(children.get(step.child)!, depth + 1) : [])]);
    return below(steps, 0);
  }, [steps, children]);
  const [first, last] = window(zoom, from, Math.max(now, from + 1));
  const scale = useMemo(() => wholeScale(lines.map((line) => line.step), first, last, width, compress, open, now), [lines, first, last, width, compress, open, now]);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const at = (event: PointerEvent) => Math.min(width, Math.max(0, event.clientX - event.currentTarget.getBoundingClientRect().left));
  const brush = {
    onPointerDown: (event: PointerEvent) => {
      if ((event.target as HTMLElement).closest("button")) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      setDrag([at(event), at(event)]);
    },
    onPointerMove: (event: PointerEvent) => drag && setDrag([drag[0], at(event)]),
    onPointerUp: () => {
      if (drag && Math.abs(drag[1] - drag[0]) > 5) onZoom(drag.toSorted((a, b) => a - b).map((x) => Math.round(scale.time(x) - from)).join("-"));
      setDrag(null);
    },
    onDoubleClick: () => onZoom(undefined),
  };
  const rows = useVirtualizer({ count: lines.length + 1, getScrollElement: () => view.current, estimateSize: () => ROW, overscan: 8 });
  // What an address names is brought on the screen, once: a step, or else the first row that has something in the window.
  const [shownStep, shownZoom] = [useRef<string>(undefined), useRef<string>(undefined)];
  useEffect(() => {
    const show = (place: number, align: "center" | "start") => {
      const { offsetHeight = 0, scrollTop = 0 } = view.current ?? {};
      const isSeen = (place + 1) * ROW >= scrollTop && (place + 2) * ROW <= scrollTop + offsetHeight;
      if (!isSeen) rows.scrollToIndex(place + 1, { align });
    };
    const at = chosen === undefined ? -1 : lines.findIndex((line) => line.depth === 0 && stepKey(line.step) === chosen);
    if (at >= 0 && shownStep.current !== chosen) show(at, "center");
    else if (zoom && lines.length && shownZoom.current !== zoom) {
      const within = lines.findIndex((line) => segments(line.step, now).some((one) => one.to >= first && one.from <= last));
      if (within >= 0) show(within, "start");
    }
    // What comes in between moves it down.
    if (total && total > steps.length) return;
    if (at >= 0 || chosen === undefined) shownStep.current = chosen;
    if (lines.length) shownZoom.current = zoom;
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [chosen, zoom, lines]);
  const toggleChild = (id: string) => {
    const next = new Set(wanted);
    if (!next.delete(id)) next.add(id);
    setWanted(next);
  };
  useKeys((key) => {
    if (key === "e" || key === "w") {
      const all = lines.flatMap(({ step }) => (step.child && !isAlone ? [step.child] : []));
      setWanted(new Set(key === "e" ? all.slice(0, MOST_OPEN) : []));
      return true;
    }
    if (key !== "f") return false;
    const place = steps.findIndex((step) => step.state === "failed" || step.attempts.length > 0);
    if (place < 0) return false;
    rows.scrollToIndex(place + 1, { align: "center" });
    onChoose(stepKey(steps[place]!));
    return true;
  });
  /// Walks the rows; what is not on the screen yet is scrolled to first.
  const walk = (event: React.KeyboardEvent) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>("[data-row]");
    const at = row ? Number(row.dataset.row) : 0;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const toggle = view.current?.querySelector<HTMLElement>(`[data-toggle="${at}"]`);
      if (toggle && (toggle.getAttribute("aria-expanded") === "true") === (event.key === "ArrowLeft")) toggle.click();
      return;
    }
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const next = Math.min(lines.length, Math.max(1, at + step));
    rows.scrollToIndex(next);
    requestAnimationFrame(() => view.current?.querySelector<HTMLElement>(`[data-row="${next}"]`)?.focus({ preventScroll: true }));
  };
  return (
    <section className={css.timeline} aria-label="Timeline" style={{ "--names": `${names}%` } as CSSProperties}>
      <Divider label="Room for names" percent={names} usual={NAMES} onMove={setNames} />
      <div className={css.axis}>
        <span>{total && total > steps.length ? `${steps.length.toLocaleString("en")} of ${total.toLocaleString("en")} operations` : `${lines.length.toLocaleString("en")} ${lines.length === 1 ? "operation" : "operations"}`}{zoom && <button type="button" className={parts.bare} onClick={() => onZoom(undefined)}>show all</button>}</span>
        <div className={css.axisTrack} ref={track} title="Drag to look closer, double click for all" {...brush}>
          {drag && <span className={css.brush} style={{ left: Math.min(...drag), width: Math.abs(drag[1] - drag[0]) }} />}
          {labels(scale, from).map(([time, label]) => <span key={time} className={css.tick} style={{ left: scale.x(time) }} title={absolute(time, utc)}>{label}</span>)}
          {scale.bands.map((band) => (
            <button key={band.from} type="button" className={css.bandName} style={nameAt(band, width)} title="Idle time. Click to show all of it." onClick={() => setOpen(new Set([...open, band.from]))}>
              {duration(band.to - band.from)}
            </button>
          ))}
          {scale.opened.map((gap) => (
            <button key={gap.from} type="button" className={css.bandName} style={nameAt({ ...gap, left: scale.x(gap.from), width: scale.x(gap.to) - scale.x(gap.from) }, width)} title="Idle time. Click to make it narrow." aria-label={`${duration(gap.to - gap.from)} idle: make it narrow`} onClick={() => setOpen(new Set([...open].filter((one) => one !== gap.from)))}>
              › {duration(gap.to - gap.from)} ‹
            </button>
          ))}
        </div>
      </div>
      <div className={css.view} ref={view} tabIndex={0} role="group" aria-label="Steps" onKeyDown={walk}>
        <div className={css.body} style={{ height: rows.getTotalSize() }}>
          <div className={css.bands} aria-hidden="true">{scale.bands.map((band) => <div key={band.from} className={css.band} style={{ left: band.left, width: band.width }} />)}</div>
          {rows.getVirtualItems().map((item) => {
            const line = lines[item.index - 1];
            return line
              ? <StepLine key={item.key} line={line} scale={scale} now={now} row={item.index} top={item.start} chosen={line.depth === 0 && chosen === stepKey(line.step)}
                  onChoose={() => line.depth === 0 && onChoose(chosen === stepKey(line.step) ? undefined : stepKey(line.step))} isOpen={!!line.step.child && children.has(line.step.child)} onChild={isAlone ? undefined : toggleChild} />
              : <RunLine key={item.key} run={run} scale={scale} now={now} />;
          })}
        </div>
      </div>
    </section>
  );
}

/// The stretch that an address asks for, within the run.
function window(zoom: string | undefined, from: number, to: number): [number, number] {
  const found = /^(\d{1,15})-(\d{1,15})$/.exec(zoom ?? "");
  const first = from + Number(found?.[1] ?? 0);
  const last = Math.min(to, from + Number(found?.[2] ?? Infinity));
  return found && last > first ? [first, last] : [from, to];
}

/// In the middle of its band, but never beyond the edge.
function nameAt(band: Band, width: number) {
  const middle = band.left + band.width / 2;
  return middle > width - 45 ? { right: -8 } : middle < 45 ? { left: 0 } : { left: middle, transform: "translateX(-50%)" };
}

function RunLine({ run, scale, now }: { run: Run; scale: Scale; now: number }) {
  const from = millis(run.created_at) ?? now;
  return (
    <div className={`${css.line} ${css.whole}`} style={{ top: 0 }}>
      <span className={css.name}><span className={css.kind}><Icon path="M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Z" /></span><span>{run.definition}</span><small>{duration(between(from, now))}</small></span>
      <span className={css.track}><span className={css.bar} data-tone={STATES[stateOf(run, now)].tone === "green" ? "green" : STATES[stateOf(run, now)].tone === "red" ? "red" : "grey"} style={{ left: scale.x(from), width: Math.max(0, scale.x(now) - scale.x(from)), height: 5, top: 12 }} /></span>
    </div>
  );
}

interface LineProps {
  line: Line;
  scale: Scale;
  now: number;
  row: number;
  top: number;
  chosen: boolean;
  isOpen: boolean;
  onChoose: () => void;
  onChild?: (id: string) => void;
}

function StepLine({ line: { step, depth }, scale, now, row, top, chosen, isOpen, onChoose, onChild }: LineProps) {
  const placed = bars(step, scale, now);
  const took = between(millis(step.began_at) ?? now, millis(step.ended_at) ?? now);
  const until = millis(step.until);
  const state = (step.state in STATES ? step.state : "running") as State;
  const tries = step.attempts.length ? ` (${step.attempts.length + (step.state === "retrying" ? 0 : 1)} attempts)` : "";
  const label = `${step.op === "undo" ? "undo " : ""}${step.name}`;
  return (
    <>
      <button type="button" className={css.line} data-row={row} style={{ top }} aria-pressed={chosen} onClick={onChoose} title={`${step.op} ${step.name}: ${state}`}>
        <span className={css.name} style={{ paddingLeft: 12 + (depth + 1) * 14 }}>
          <span className={css.kind}><Icon path={KINDS[step.op] ?? OTHER} /></span>
          <span>{label}<span className={parts.muted}>{tries}</span></span>
          <small>{state === "completed" ? "" : `${state} `}{duration(took)}</small>
        </span>
        <span className={css.track}>
          {placed.map((bar) => <span key={`${bar.kind}${bar.from}`} className={css.bar} data-kind={bar.kind} data-tone={tone(bar, step)} data-live={!step.ended_at && bar === placed.at(-1)} style={{ left: bar.left, width: bar.width }} title={`${bar.attempt ? `attempt ${bar.attempt}` : bar.kind}: ${duration(bar.to - bar.from)}`} />)}
          {step.op === "event" && step.ended_at && <Mark at={millis(step.ended_at)} scale={scale} title="arrived" />}
          {step.op === "sleep" && until !== null && until <= now && <Mark at={until} scale={scale} title="timer" />}
        </span>
      </button>
      {step.child && onChild && (
        <button type="button" className={parts.bare} data-toggle={row} style={{ position: "absolute", top: top + 6, left: 2 + depth * 14, zIndex: 2 }} aria-expanded={isOpen} aria-label="Steps of the child" onClick={() => onChild(step.child!)}>
          {isOpen ? "▾" : "▸"}
        </button>
      )}
    </>
  );
}

function Mark({ at, scale, title }: { at: number | null; scale: Scale; title: string }) {
  if (at === null || at < scale.from || at > scale.to) return null;
  return <span className={css.mark} style={{ left: scale.x(at) }} title={title} />;
}

function tone(bar: Bar, step: Step): string {
  if (bar.kind !== "run") return "amber";
  if (bar.failed) return "red";
  if (step.op === "undo") return "amber";
  return step.state === "completed" ? "green" : step.state === "dropped" ? "grey" : "blue";
}

/// The steps of each, as far as they have come.
function stepsFound(all: { data?: { items: Step[] } }[]): (Step[] | undefined)[] {
  return all.map((one) => one.data?.items);
}
