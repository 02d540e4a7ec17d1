// A line that people move to give one side more room: with the mouse, or with the arrows. Where it was put is kept.
import { type KeyboardEvent, type PointerEvent, useState } from "react";
import { keepShare, share } from "../lib/kept";
import { css } from "./parts";

/// The share that was chosen, in percent, and a way to choose another.
export function useShare(name: string, usual: number): [number, (percent: number) => void] {
  const [percent, setPercent] = useState(() => share(name, usual));
  const set = (next: number) => {
    const bounded = Math.min(75, Math.max(15, next));
    setPercent(bounded);
    keepShare(name, bounded);
  };
  return [percent, set];
}

interface Props {
  label: string;
  /// Of what is to the left, in percent.
  percent: number;
  usual: number;
  onMove: (percent: number) => void;
}

/// Stands inside of what it divides, which has to be positioned.
export function Divider({ label, percent, usual, onMove }: Props) {
  const move = (event: PointerEvent<HTMLElement>) => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const box = event.currentTarget.parentElement!.getBoundingClientRect();
    onMove(((event.clientX - box.left) / box.width) * 100);
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -2, ArrowRight: 2 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    onMove(percent + step);
  };
  return (
    <div className={css.divider} role="separator" aria-orientation="vertical" aria-label={label} aria-valuenow={Math.round(percent)} aria-valuemin={15} aria-valuemax={75}
      tabIndex={0} title="Drag to give one side more room, double click for the usual" style={{ left: `${percent}%` }}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)} onPointerMove={move} onKeyDown={press} onDoubleClick={() => onMove(usual)} />
  );
}
