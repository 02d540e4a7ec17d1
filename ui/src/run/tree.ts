// The rows of a timeline: operations in the order in which they began, those of one scope below its name, those of an opened child below
// the child. Without a browser, so that it can be tested.
import type { Step } from "../lib/state";
import { millis } from "../lib/time";

/// Steps of children that were opened; nothing yet of one whose steps are on their way.
export type Children = ReadonlyMap<string, Step[] | undefined>;

interface Row {
  depth: number;
  /// The child that it is of; of this run where there is none.
  run?: string;
}
export interface StepRow extends Row {
  step: Step;
  /// Its name below that of its scope.
  name: string;
}
/// Several operations of one scope, which may go on at once.
export interface GroupRow extends Row {
  group: string;
  name: string;
  steps: Step[];
}
/// There is nothing to show, and why.
export interface NoteRow extends Row {
  note: string;
}
export type Line = StepRow | GroupRow | NoteRow;

/// What stands between the names of scopes, and behind them.
const MARK = "/";

export function rowsOf(steps: Step[], children: Children = new Map(), closed: ReadonlySet<string> = new Set(), run?: string, depth = 0): Line[] {
  const rows: Line[] = [];
  below(begun(steps), "", depth);
  return rows;

  function below(some: Step[], scope: string, depth: number) {
    const groups = new Map<string, Step[]>();
    for (const step of some) {
      const group = scopeOf(step, scope);
      if (!group) continue;
      const all = groups.get(group);
      if (all) all.push(step);
      else groups.set(group, [step]);
    }
    for (const step of some) {
      const group = scopeOf(step, scope);
      const all = group ? groups.get(group)! : [];
      if (all.length < 2) one(step, scope, depth);
      // It stands where the first of it began.
      else if (all[0] === step) {
        const key = run === undefined ? group! : `${run} ${group}`;
        rows.push({ group: key, name: group!.slice(scope.length, -1), steps: all, depth, run });
        if (!closed.has(key)) below(all, group!, depth + 1);
      }
    }
  }

  function one(step: Step, scope: string, depth: number) {
    rows.push({ step, name: step.name.slice(scope.length), depth, run });
    if (!step.child || !children.has(step.child)) return;
    const its = children.get(step.child);
    if (its?.length) for (const row of rowsOf(its, children, closed, step.child, depth + 1)) rows.push(row);
    else rows.push({ note: its ? "no steps" : "…", depth: depth + 1, run: step.child });
  }
}

/// In the order in which they began, where journals have that in which they ended: of two that went on at once the longer one may stand
/// behind the other there. Those that began together stay as they are, and so does what has no time of its own.
function begun(steps: Step[]): Step[] {
  let last = -Infinity;
  const all = steps.map((step) => ({ step, at: (last = millis(step.began_at) ?? last) }));
  // As they are mostly.
  if (all.every(({ at }, nth) => nth === 0 || all[nth - 1]!.at <= at)) return steps;
  return all.sort((a, b) => (a.at === b.at ? 0 : a.at - b.at)).map(({ step }) => step);
}

/// The next scope within this one, with the mark behind it.
function scopeOf(step: Step, within: string): string | null {
  const end = step.name.indexOf(MARK, within.length);
  return end > within.length && end < step.name.length - 1 ? step.name.slice(0, end + 1) : null;
}
