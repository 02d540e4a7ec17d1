// The lines that a run logged. What has come stays as it is, so that of a run that goes on only what is new is asked for.
import type { Schemas } from "../api/client";
import { type Step, stepKey } from "../lib/state";

/// Lines of one answer.
export const PAGE = 1000;

interface Page<Line> {
  items: Line[];
  next_after: number;
  has_more: boolean;
}

export interface Known<Line> {
  lines: Line[];
  /// What to ask behind for more.
  after: number;
  /// Whether that was all when it was asked for.
  isAll: boolean;
}

interface How<Line> {
  /// Nobody wants more than so many, and to know whether there are any.
  wanted?: number;
  /// Gets what has come while there is more.
  show?: (known: Known<Line>) => void;
}

/// A log of which some is known, with what is behind that. Where pages leave lines out, as those of other steps, these are passed over all
/// the same: the lines of a late step are behind pages without any.
export async function laterLines<Line>(known: Known<Line> | undefined, page: (after: number) => Promise<Page<Line>>, { wanted = Infinity, show }: How<Line> = {}): Promise<Known<Line>> {
  let log = known ?? { lines: [], after: 0, isAll: false };
  while (log.lines.length <= wanted) {
    const { items, next_after: after, has_more: hasMore } = await page(log.after);
    log = { lines: items.length ? [...log.lines, ...items] : log.lines, after, isAll: !hasMore };
    if (!hasMore) break;
    show?.(log);
  }
  return log;
}

/// A log as a file: line by line, with its step where it was in one.
export function written(lines: Schemas["Log"][], plain: (text: string) => string): string {
  return lines.map((line) => `${line.at} ${line.level} ${line.step ? `[${line.step}] ` : ""}${plain(line.message)}\n`).join("");
}

/// What logs lines of its own. A job is the whole run.
const SPEAKS = ["step", "transaction", "undo"];

/// By what lines name a step, how addresses do.
export function stepsOfLines(steps: Step[]): Map<string, string> {
  return new Map(steps.filter((step) => SPEAKS.includes(step.op)).map((step) => [step.op === "undo" ? stepKey(step) : step.name, stepKey(step)]));
}

/// By what a log can be narrowed: the names of steps, each once, however often it was done; and the one that is chosen.
export function narrowings(known: Iterable<string>, chosen: string | undefined): string[] {
  const names = new Set(Array.from(known, (name) => name.split("#")[0]!));
  if (chosen) names.add(chosen);
  return [...names];
}
