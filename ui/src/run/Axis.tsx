// The axis of a timeline, and the whole run in small below it: both choose which stretch is shown.
import { type CSSProperties, type KeyboardEvent, type PointerEvent, useMemo, useState } from "react";
import type { Step } from "../lib/state";
import { absolute, duration } from "../lib/time";
import { useUtc } from "../lib/zone";
import { labels, type Named, named, outline, type Scale, styled } from "./layout";
import css from "./run.module.css";

/// From one pixel to another.
type Span = [number, number];
/// What moves less than this was a click.
const CLICK = 5;
/// The narrowest that can be chosen with a handle.
const NARROW = 4;

interface AxisProps {
  scale: Scale;
  /// When the run began.
  from: number;
  moves: boolean;
  onSpan: (from: number, to: number) => void;
  onReset: () => void;
  onBand: (band: number) => void;
}

export function Axis({ scale, from, moves, onSpan, onReset, onBand }: AxisProps) {
  const utc = useUtc();
  const [drag, setDrag] = useState<Span | null>(null);
  const names = useMemo(() => named(scale), [scale]);
  const brush = {
    onPointerDown: (event: PointerEvent) => {
      if ((event.target as HTMLElement).closest("button")) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      setDrag([at(event, scale), at(event, scale)]);
    },
    onPointerMove: (event: PointerEvent) => drag && setDrag([drag[0], at(event, scale)]),
    onPointerUp: (event: PointerEvent) => {
      // Where it was let go, and not where it was when that was last drawn.
      const [first, last] = [drag?.[0] ?? 0, drag ? at(event, scale) : 0].toSorted((a, b) => a - b) as Span;
      if (last - first > CLICK) onSpan(scale.time(first), scale.time(last));
      setDrag(null);
    },
    onDoubleClick: onReset,
  };
  return (
    <div className={css.axisTrack} title="Drag to look closer, double click for all" {...brush}>
      {drag && <span className={css.brush} style={{ left: Math.min(...drag), width: Math.abs(drag[1] - drag[0]) }} />}
      {labels(scale, from, names).map(([time, label]) => <span key={time} className={css.tick} style={{ left: styled(scale, time, time, moves, 0).left }} title={absolute(time, utc)}>{label}</span>)}
      {names.map((name) => {
        const length = duration(name.gap.to - name.gap.from);
        const [title, does] = name.isOpen ? ["Idle time. Click to make it narrow.", "make it narrow"] : ["Idle time. Click to show all of it.", "show all of it"];
        return (
          <button key={name.gap.from} type="button" className={css.bandName} data-bare={!name.text} style={placed(name, scale, moves)} title={name.text ? title : `${length}. ${title}`} aria-label={`${length} idle: ${does}`} onClick={() => onBand(name.gap.from)}>
            {name.text}
          </button>
        );
      })}
    </div>
  );
}

function at(event: PointerEvent, scale: Scale): number {
  return Math.min(scale.width, Math.max(0, event.clientX - event.currentTarget.getBoundingClientRect().left));
}

/// Where the length of an idle stretch stands; it goes with its band where that moves.
function placed({ gap, isOpen, text, left, width }: Named, scale: Scale, moves: boolean): CSSProperties {
  const middle = left + width / 2;
  const at = moves && !isOpen ? `calc(${styled(scale, gap.from, gap.to, true, 0).left} + ${middle - gap.left}px)` : middle;
  return { left: at, width: text ? undefined : width };
}

interface MapProps {
  /// Of the whole run.
  scale: Scale;
  steps: Step[];
  now: number;
  /// The stretch that is shown.
  first: number;
  last: number;
  from: number;
  onSpan: (from: number, to: number) => void;
  onReset: () => void;
}

type Grip = "new" | "first" | "last" | "both";
interface Drag {
  grip: Grip;
  start: number;
  before: Span;
  now: Span;
}

/// What is shown of the whole. Either edge can be dragged, or moved with the arrows; dragged in between it is moved, and beside it drawn anew.
export function Overview({ scale, steps, now, first, last, from, onSpan, onReset }: MapProps) {
  const [drag, setDrag] = useState<Drag | null>(null);
  const drawn = useMemo(() => outline(steps, scale, now), [steps, scale, now]);
  const shown: Span = drag?.now ?? [scale.x(first), scale.x(last)];
  const isWhole = shown[0] <= 0 && shown[1] >= scale.width;
  const choose = ([left, right]: Span, grip: Grip) => {
    if (left <= 0 && right >= scale.width) return onReset();
    // The edge that nobody touched stays at its time, also where the scale goes on meanwhile.
    onSpan(grip === "last" ? first : scale.time(left), grip === "first" ? last : scale.time(right));
  };
  const track = {
    onPointerDown: (event: PointerEvent) => {
      const x = at(event, scale);
      const held = (event.target as HTMLElement).dataset.grip as Grip | undefined;
      const grip: Grip = held ?? (!isWhole && x > shown[0] && x < shown[1] ? "both" : "new");
      event.currentTarget.setPointerCapture(event.pointerId);
      setDrag({ grip, start: x, before: shown, now: shown });
    },
    onPointerMove: (event: PointerEvent) => drag && setDrag({ ...drag, now: pulled(drag, at(event, scale), scale.width) }),
    onPointerUp: (event: PointerEvent) => {
      const x = at(event, scale);
      if (drag && Math.abs(x - drag.start) >= (drag.grip === "new" ? CLICK : 1)) choose(pulled(drag, x, scale.width), drag.grip);
      setDrag(null);
    },
    onDoubleClick: onReset,
  };
  const press = (event: KeyboardEvent, grip: "first" | "last") => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const start = shown[grip === "first" ? 0 : 1];
    choose(pulled({ grip, start, before: shown, now: shown }, start + (step * scale.width) / (event.shiftKey ? 10 : 50), scale.width), grip);
  };
  const handle = (grip: "first" | "last", name: string, time: number) => (
    <span data-grip={grip} className={css.handle} style={{ left: shown[grip === "first" ? 0 : 1] }} role="slider" tabIndex={0} aria-label={name}
      aria-valuemin={0} aria-valuemax={Math.round(scale.to - from)} aria-valuenow={Math.round(time - from)} aria-valuetext={`after ${duration(time - from)}`} onKeyDown={(event) => press(event, grip)} />
  );
  return (
    <div className={css.map} title="The whole run. Drag an edge to see less or more, double click for all" {...track}>
      {drawn.map((one) => <span key={one.left} className={css.worked} data-failed={one.failed} style={{ left: one.left, width: one.width }} />)}
      <span className={css.seen} data-whole={isWhole} style={{ left: shown[0], width: Math.max(1, shown[1] - shown[0]) }} />
      {handle("first", "From here on is shown", first)}
      {handle("last", "Up to here is shown", last)}
    </div>
  );
}

/// What is chosen once a grip was pulled to `x`.
export function pulled({ grip, start, before: [left, right] }: Drag, x: number, width: number): Span {
  if (grip === "first") return [Math.max(0, Math.min(x, right - NARROW)), right];
  if (grip === "last") return [left, Math.min(width, Math.max(x, left + NARROW))];
  if (grip === "new") return [Math.min(start, x), Math.max(start, x)];
  const by = Math.max(-left, Math.min(x - start, width - right));
  return [left + by, right + by];
}
