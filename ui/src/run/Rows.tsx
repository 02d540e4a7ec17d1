// The rows of a timeline as they are drawn: the run, its operations, scopes, and what an opened child did.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type Run, STATES, stateOf, type Step, stepKey, stepState } from "../lib/state";
import { between, duration, millis } from "../lib/time";
import { css as parts, Icon } from "../parts/parts";
import { bars, type Gap, type Scale, type Segment, styled } from "./layout";
import css from "./run.module.css";
import type { GroupRow, NoteRow, StepRow } from "./tree";

const BOX = "M4 4h8v8H4z";
const KINDS: Record<string, string> = {
  step: BOX, job: BOX, transaction: `${BOX}M7 7h2v2H7z`, sleep: STATES.scheduled.icon, event: "M2 4h12v8H2zM2 4l6 5 6-5", promise: "m8 3 5 5-5 5-5-5z",
  child: "M4 2v8h8M9 7l3 3-3 3", send: "M2 8h11M9 4l4 4-4 4", cancel: STATES.cancelled.icon, undo: STATES.undoing.icon, revise: "m3 13 1-3 7-7 2 2-7 7z",
};
const OTHER = "M4 6.5h8M4 9.5h8";
const GROUP = "M3 3h10v10H3zM3 8h10";

/// What comes from outside at one moment, and what is said of that.
const SETTLED: Record<string, string> = { event: "arrived", promise: "settled" };

/// What every row is placed by.
export interface Placed {
  scale: Scale;
  now: number;
  /// Whether the right edge is now, and goes on by itself.
  moves: boolean;
}

function Name({ icon, depth, children }: { icon: string; depth: number; children: ReactNode }) {
  return <span className={css.name} style={{ paddingLeft: 12 + depth * 14 }}><span className={css.kind}><Icon path={icon} /></span>{children}</span>;
}

/// A thin bar of what has others below it.
function Whole({ from, to, tone, scale, moves }: Placed & Gap & { tone: string }) {
  return <span className={`${css.bar} ${css.thin}`} data-tone={tone} style={styled(scale, from, to, moves)} />;
}

export function RunLine({ run, working, ...placed }: Placed & { run: Run; working?: Gap }) {
  const { scale, now, moves } = placed;
  const from = millis(run.created_at) ?? now;
  const { tone } = STATES[stateOf(run, now)];
  const [begun, line] = queued(run, now);
  return (
    <div className={`${css.line} ${css.whole}`} style={{ top: 0 }}>
      <Name icon="M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Z" depth={0}><span>{run.definition}</span><small>{duration(between(from, now))}</small></Name>
      <span className={css.track}>
        {line && <span className={`${css.bar} ${css.thin}`} data-kind="line" style={styled(scale, line.from, line.to, moves)} title={`in line: ${duration(line.to - line.from)}`} />}
        {begun <= now && <Whole {...placed} from={begun} to={now} tone={tone === "green" || tone === "red" ? tone : "grey"} />}
        {working && <span className={`${css.bar} ${css.thin}`} data-tone="blue" data-live="true" style={styled(scale, working.from, working.to, moves)} title={`at work: ${duration(working.to - working.from)} since the last that it recorded`} />}
      </span>
    </div>
  );
}

/// From when on a run was in hand, and when it stood in line, as far as that was recorded.
function queued(run: Run, now: number): [number, Gap | null] {
  const made = millis(run.created_at) ?? now;
  const from = Math.max(made, millis(run.wanted_at) ?? made);
  const to = millis(run.started_at) ?? (run.status === "ready" ? now : null);
  if (to === null || to <= from) return [made, null];
  return [to, { from, to }];
}

export function GroupLine({ line, row, top, isOpen, onToggle, ...placed }: Placed & { line: GroupRow; row: number; top: number; isOpen: boolean; onToggle: () => void }) {
  const { now } = placed;
  const [from, to] = [Math.min(...line.steps.map((step) => millis(step.began_at) ?? now)), Math.max(...line.steps.map((step) => millis(step.ended_at) ?? now))];
  const isFailed = line.steps.some((step) => step.state === "failed");
  return (
    <button type="button" className={css.line} data-row={row} data-toggle={row} style={{ top }} aria-expanded={isOpen} onClick={onToggle} title={`${line.name}: ${line.steps.length} operations`}>
      <Name icon={GROUP} depth={line.depth + 1}><span>{isOpen ? "▾" : "▸"} {line.name}<span className={parts.muted}> ({line.steps.length})</span></span><small>{duration(between(from, to))}</small></Name>
      <span className={css.track}><Whole {...placed} from={from} to={to} tone={isFailed ? "red" : "grey"} /></span>
    </button>
  );
}

export function NoteLine({ line, top }: { line: NoteRow; top: number }) {
  return <div className={`${css.line} ${css.whole} ${css.none}`} style={{ top }}><Name icon="" depth={line.depth + 1}><span className={parts.muted}>{line.note}</span></Name></div>;
}

interface StepProps extends Placed {
  line: StepRow;
  /// Whose step it is, as far as that is known: of a child its steps alone are.
  run: Pick<Run, "status">;
  row: number;
  top: number;
  chosen: boolean;
  isOpen: boolean;
  onChoose: () => void;
  onChild?: (id: string) => void;
}

export function StepLine({ line: { step, name, depth, run: child }, run, row, top, chosen, isOpen, onChoose, onChild, scale, now, moves }: StepProps) {
  const placed = bars(step, scale, now);
  const took = between(millis(step.began_at) ?? now, millis(step.ended_at) ?? now);
  const until = millis(step.until);
  const state = stepState(step, run, now);
  const title = `${step.op} ${step.name}: ${state}`;
  const inside = (
    <>
      <Name icon={KINDS[step.op] ?? OTHER} depth={depth + 1}>
        <span>{step.op === "undo" ? "undo " : ""}{name}<span className={parts.muted}>{tried(step, state)}</span></span>
        <small>{state === "completed" ? "" : `${state} `}{duration(took)}</small>
      </Name>
      <span className={css.track}>
        {placed.map((bar) => <span key={`${bar.kind}${bar.from}`} className={css.bar} data-kind={bar.kind} data-tone={tone(bar, step, state)} data-live={!step.ended_at && bar === placed.at(-1)} style={styled(scale, bar.from, bar.to, moves)} title={`${bar.attempt ? `attempt ${bar.attempt}` : bar.kind}: ${duration(bar.to - bar.from)}`} />)}
        {SETTLED[step.op] && state === "completed" && <Mark at={millis(step.ended_at)} scale={scale} moves={moves} title={SETTLED[step.op]!} />}
        {step.op === "sleep" && until !== null && until <= now && <Mark at={until} scale={scale} moves={moves} title="timer" />}
      </span>
    </>
  );
  return (
    <>
      {child
        ? <Link to={`/runs/${child}` as string} search={{ step: stepKey(step) } as never} className={css.line} data-row={row} style={{ top }} title={`${title}, of the child`}>{inside}</Link>
        : <button type="button" className={css.line} data-row={row} style={{ top }} aria-pressed={chosen} onClick={onChoose} title={title}>{inside}</button>}
      {step.child && onChild && (
        <button type="button" className={`${parts.bare} ${css.fold}`} data-toggle={row} style={{ top: top + 6, left: 2 + depth * 14 }} aria-expanded={isOpen} aria-label="Steps of the child" onClick={() => onChild(step.child!)}>
          {isOpen ? "▾" : "▸"}
        </button>
      )}
    </>
  );
}

/// How often it was tried, where that was not once and for all.
function tried(step: Step, state: string): string {
  if (!step.attempts.length) return "";
  const count = step.attempts.length + (state === "retrying" ? 0 : 1);
  return ` (${count} ${count === 1 ? "attempt" : "attempts"})`;
}

function Mark({ at, scale, moves, title }: { at: number | null; scale: Scale; moves: boolean; title: string }) {
  if (at === null || at < scale.from || at > scale.to) return null;
  return <span className={css.mark} style={{ left: styled(scale, at, at, moves, 0).left }} title={title} />;
}

function tone(bar: Segment, step: Step, state: string): string {
  if (bar.kind !== "run") return "amber";
  if (bar.failed) return "red";
  if (step.op === "undo") return "amber";
  return { completed: "green", failed: "red", dropped: "grey", cancelled: "grey" }[state] ?? "blue";
}
