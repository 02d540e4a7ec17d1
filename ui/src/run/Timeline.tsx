// What a run did, over time. Only the rows on the screen are in the document, and only those are placed.
import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type RefObject, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useKeys } from "../app/keys";
import { useTopics } from "../app/live";
import { isFinal, type Run, type Step, stepKey } from "../lib/state";
import { millis, serverNow } from "../lib/time";
import { Divider, useShare } from "../parts/Divider";
import { useNow } from "../parts/parts";
import { Axis, Overview } from "./Axis";
import { isBusy, type Scale, segments, shrunk, styled, wholeScale, working } from "./layout";
import { bandsOf, closedOf, isAll, MOST_OPEN, openOf, type Shown, withAll, withBand, withChild, withScope } from "./opened";
import { GroupLine, NoteLine, RunLine, StepLine } from "./Rows";
import css from "./run.module.css";
import { ENDS, stepsOf } from "./steps";
import { rowsOf } from "./tree";

const ROW = 30;
/// How much of the width names have, in percent, unless somebody moved the divider. On a telephone they need more of it.
const NAMES = innerWidth < 700 ? 44 : 40;
/// Of how many of them is heard as they go on; the server bounds it. The others are asked again now and then.
const MOST_HEARD = 8;
const ASK_AGAIN = 3000;

interface Props {
  run: Run;
  steps: Step[];
  /// How many there are, where not all have come yet.
  total?: number;
  compress: boolean;
  /// What the address says is shown, and a way to say something else.
  shown: Shown;
  onShow: (change: (before: Shown) => Shown) => void;
  chosen?: string;
  onChoose: (step: string | undefined) => void;
  /// Of a run that is in a file: its children are not here.
  isAlone?: boolean;
}

export function Timeline({ run, steps, total, compress, shown, onShow, chosen, onChoose, isAlone = false }: Props) {
  const { zoom } = shown;
  const onZoom = (zoom: string | undefined) => onShow(() => ({ zoom }));
  const second = useNow();
  const done = isFinal(run.status);
  const now = done ? (millis(run.finished_at) ?? second) : second;
  const from = millis(run.created_at) ?? now;
  const [section, view, track] = [useRef<HTMLElement>(null), useRef<HTMLDivElement>(null), useRef<HTMLDivElement>(null)];
  const [width, setWidth] = useState(600);
  const open = useMemo(() => bandsOf(shown.bands, from), [shown.bands, from]);
  const closedText = [shown.closed ?? []].flat().join("\n");
  const closed = useMemo(() => closedOf(shown.closed), [closedText]); // eslint-disable-line react-hooks/exhaustive-deps
  // Children that somebody wants to see. They are asked for then, and not before.
  const client = useQueryClient();
  const theirs = (child: string) => (client.getQueryData(stepsOf(child).queryKey) as { items: Step[] } | undefined)?.items;
  const wanted = isAlone ? [] : openOf(shown.open, steps, theirs);
  const heard = wanted.slice(0, MOST_HEARD);
  useTopics(...heard.map((id) => `run:${id}`));
  const isOn = (found: { items: Step[] } | undefined) => !done && !!found?.items.some((step) => !step.ended_at);
  const found = useQueries({
    queries: wanted.map((id) => ({ ...stepsOf(id), refetchInterval: (query: { state: { data?: { items: Step[] } } }) => !heard.includes(id) && isOn(query.state.data) ? ASK_AGAIN : false as const })),
    combine: stepsFound,
  });
  const children = useMemo(() => new Map(wanted.map((id, at) => [id, found[at]])), [wanted.join(), found]); // eslint-disable-line react-hooks/exhaustive-deps
  const [names, setNames] = useShare("names", NAMES);
  useLayoutEffect(() => {
    if (!track.current) return;
    const measure = (wide: number) => setWidth(Math.max(100, wide));
    // Before it is seen for the first time: what moves afterwards is what somebody looks at.
    measure(track.current.clientWidth);
    const observer = new ResizeObserver(([entry]) => measure(entry!.contentRect.width));
    observer.observe(track.current);
    return () => observer.disconnect();
  }, []);
  const lines = useMemo(() => rowsOf(steps, children, closed), [steps, children, closed]);
  const drawn = useMemo(() => lines.flatMap((line) => ("step" in line ? [line.step] : "group" in line && closed.has(line.group) ? line.steps : [])), [lines, closed]);
  const work = useMemo(() => working(run.status, steps, now), [run.status, steps, now]);
  const end = Math.max(now, from + 1);
  const asked = stretch(zoom, from, end);
  const [first, last] = asked ?? [from, end];
  const whole = useMemo(() => wholeScale(drawn, from, end, width, compress, open, now, work), [drawn, from, end, width, compress, open, now, work]);
  const scale = useMemo(() => (first === from && last === end ? whole : wholeScale(drawn, first, last, width, compress, open, now, work)), [whole, drawn, first, from, last, end, width, compress, open, now, work]);
  const isIdle = scale.bands.at(-1)?.to === scale.to;
  const moves = !done && last === end && !isIdle && (work !== undefined || run.status === "running" || isBusy(drawn, now));
  useMotion(section, scale, moves);
  const span = (one: number, other: number) => onZoom([one, other].map((time) => Math.round(time - from)).join("-"));
  const rows = useVirtualizer({ count: lines.length + 1, getScrollElement: () => view.current, estimateSize: () => ROW, overscan: 8 });
  const placeOf = (is: (step: Step) => boolean) => lines.findIndex((line) => "step" in line && line.run === undefined && is(line.step));
  // What an address names is brought on the screen, once: a step, or else the first row that has something in the window.
  const [shownStep, shownZoom] = [useRef<string>(undefined), useRef<string>(undefined)];
  useEffect(() => {
    const show = (place: number, align: "center" | "start") => {
      const { offsetHeight = 0, scrollTop = 0 } = view.current ?? {};
      const isSeen = (place + 1) * ROW >= scrollTop && (place + 2) * ROW <= scrollTop + offsetHeight;
      if (!isSeen) rows.scrollToIndex(place + 1, { align });
    };
    const at = chosen === undefined ? -1 : placeOf((step) => stepKey(step) === chosen);
    if (at >= 0 && shownStep.current !== chosen) show(at, "center");
    else if (asked && shownZoom.current !== zoom) {
      const within = lines.findIndex((line) => "step" in line && segments(line.step, now).some((one) => one.to >= first && one.from <= last));
      if (within >= 0) show(within, "start");
    }
    // What comes in between moves it down.
    if (total && total > steps.length) return;
    if (at >= 0 || chosen === undefined) shownStep.current = chosen;
    // A stretch that a young run has not reached yet is shown when it has.
    if (lines.length && (asked || !zoom)) shownZoom.current = zoom;
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [chosen, zoom, !asked, lines]);
  const known = useMemo(() => drawn.flatMap((step) => (step.child && !isAlone ? [step.child] : [])), [drawn, isAlone]);
  // Those that are open by then: one may be opened before another has been drawn.
  const toggle = (child: string) => onShow((before) => ({ open: withChild(before.open, openOf(before.open, steps, theirs), child) }));
  useKeys((key) => {
    if (key === "e" || key === "w") {
      onShow(() => ({ open: withAll(key === "e") }));
      return true;
    }
    if (key === "Escape") leave();
    return key === "f" && toFailure();
  });
  const isSeeking = useRef(false);
  /// Whoever looks at something else meanwhile is not taken away from it when the failure comes.
  const leave = () => void (isSeeking.current = false);
  useEffect(leave, [run.id]);
  /// Shows the first failure. While the middle of a long run is on its way it may be there, and is waited for.
  const toFailure = (): boolean => {
    const first = steps.findIndex((step) => step.state === "failed" || step.attempts.length > 0);
    isSeeking.current = !!total && total > steps.length && (first < 0 || first >= ENDS);
    if (isSeeking.current) return true;
    if (first < 0) return false;
    const failed = steps[first]!;
    onShow(() => ({ closed: undefined }));
    const place = rowsOf(steps, children).findIndex((line) => "step" in line && line.step === failed);
    rows.scrollToIndex(place + 1, { align: "center" });
    onChoose(stepKey(failed));
    return true;
  };
  useEffect(() => {
    if (isSeeking.current) toFailure();
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [steps]);
  // Behind that: what an address names may have come with the failure.
  useEffect(leave, [chosen]);
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
    let next = at + step;
    while (lines[next - 1] && "note" in lines[next - 1]!) next += step;
    next = Math.min(lines.length, Math.max(1, next));
    rows.scrollToIndex(next);
    requestAnimationFrame(() => view.current?.querySelector<HTMLElement>(`[data-row="${next}"]`)?.focus({ preventScroll: true }));
  };
  const placed = { scale, now, moves };
  return (
    <section className={css.timeline} aria-label="Timeline" ref={section} style={{ "--names": `${names}%` } as CSSProperties} onWheel={leave} onTouchMove={leave} onPointerDown={leave} onKeyDown={leave}>
      <Divider label="Room for names" percent={names} usual={NAMES} onMove={setNames} />
      <div className={css.axis}>
        <span className={css.count}>
          {counted(steps.length, total, drawn.length)}
          {isAll(shown.open) && known.length > wanted.length && <span title={`No more than ${MOST_OPEN} are open at once`}>, {wanted.length} of {known.length} children are open</span>}
          {zoom && <button type="button" className={css.all} onClick={() => onZoom(undefined)}>show all</button>}
        </span>
        <Axis scale={scale} from={from} moves={moves} onSpan={span} onReset={() => onZoom(undefined)} onBand={(band) => onShow((before) => ({ bands: withBand(before.bands, from, band) }))} />
        <span />
        <div ref={track}><Overview scale={whole} steps={drawn} now={now} first={first} last={last} from={from} onSpan={span} onReset={() => onZoom(undefined)} /></div>
      </div>
      <div className={css.view} ref={view} tabIndex={0} role="group" aria-label="Steps" onKeyDown={walk}>
        <div className={css.body} style={{ height: rows.getTotalSize() }}>
          <div className={css.bands} aria-hidden="true">{scale.bands.map((band) => <div key={band.from} className={css.band} style={styled(scale, band.from, band.to, moves, 0)} />)}</div>
          {rows.getVirtualItems().map(({ key, index, start }) => {
            const line = lines[index - 1];
            if (!line) return <RunLine key={key} run={run} working={work} {...placed} />;
            if ("note" in line) return <NoteLine key={key} line={line} top={start} />;
            if ("group" in line) return <GroupLine key={key} line={line} row={index} top={start} isOpen={!closed.has(line.group)} onToggle={() => onShow((before) => ({ closed: withScope(before.closed, line.group) }))} {...placed} />;
            const isChosen = line.run === undefined && chosen === stepKey(line.step);
            return <StepLine key={key} line={line} run={line.run ? CHILD : run} row={index} top={start} chosen={isChosen} onChoose={() => onChoose(isChosen ? undefined : stepKey(line.step))}
              isOpen={!!line.step.child && children.has(line.step.child)} onChild={isAlone ? undefined : toggle} {...placed} />;
          })}
        </div>
      </div>
    </section>
  );
}

/// Of a child nothing is known but its steps.
const CHILD = { status: "" };

/// While something works the right edge goes on by itself, frame by frame. One number on the section moves everything in it: nothing is
/// drawn anew for that. Browsers ask for no frame while nobody looks.
function useMotion(section: RefObject<HTMLElement | null>, scale: Scale, moves: boolean) {
  useLayoutEffect(() => {
    const set = (k: number) => section.current?.style.setProperty("--k", String(k));
    if (!moves || matchMedia("(prefers-reduced-motion: reduce)").matches) return set(1);
    let frame = 0;
    const next = () => {
      set(shrunk(scale, serverNow() - scale.to));
      frame = requestAnimationFrame(next);
    };
    next();
    return () => cancelAnimationFrame(frame);
  }, [section, scale, moves]);
}

function counted(have: number, total: number | undefined, shown: number): string {
  if (total && total > have) return `${have.toLocaleString("en")} of ${total.toLocaleString("en")} operations`;
  return `${shown.toLocaleString("en")} ${shown === 1 ? "operation" : "operations"}`;
}

/// The stretch that an address asks for, where the run has come that far.
function stretch(zoom: string | undefined, from: number, to: number): [number, number] | undefined {
  const found = /^(\d{1,15})-(\d{1,15})$/.exec(zoom ?? "");
  const first = from + Number(found?.[1] ?? 0);
  const last = Math.min(to, from + Number(found?.[2] ?? Infinity));
  return found && last > first ? [first, last] : undefined;
}

/// The steps of each, as far as they have come.
function stepsFound(all: { data?: { items: Step[] } }[]): (Step[] | undefined)[] {
  return all.map((one) => one.data?.items);
}
