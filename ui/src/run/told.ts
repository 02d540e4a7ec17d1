// Entries and what people did, in the order of time: without a browser, so that it can be tested.
import type { Schemas } from "../api/client";
import { Exact } from "../lib/json";

export interface Line {
  key: string;
  pos?: number;
  at: string;
  kind: string;
  phase: string;
  name: string;
  body?: unknown;
  /// How a long one begins, instead of it.
  preview?: Schemas["Preview"];
  /// Instead of a body.
  words?: string;
}

/// What people did is called like this among the kinds.
export const OPERATOR = "operator";

/// Both, oldest first. Where there are more entries than are here, what people did behind the last of them is left for later.
export function told(entries: Schemas["Entry"][], actions: Schemas["Action"][], hasMore: boolean): Line[] {
  const lines: Line[] = entries.map((entry) => ({ key: `e${entry.pos}`, pos: entry.pos, at: entry.at, kind: entry.op, phase: entry.phase, name: entry.name, body: entry.body, preview: entry.previews?.body }));
  const last = hasMore ? entries.at(-1)?.at : undefined;
  const acts = actions.toReversed().filter((action) => last === undefined || Date.parse(action.at) <= Date.parse(last));
  const asked: Line[] = acts.map((action, nth) => ({
    key: `a${nth}`, at: action.at, kind: OPERATOR, phase: action.status < 400 ? "done" : "refused", name: action.action.replace(/^run\./, ""),
    words: action.reason ? `${action.actor}: ${action.reason}` : action.actor,
  }));
  // Entries keep their own order, whatever their times say.
  const merged: Line[] = [];
  for (const line of lines) {
    while (asked.length && Date.parse(asked[0]!.at) <= Date.parse(line.at)) merged.push(asked.shift()!);
    merged.push(line);
  }
  return [...merged, ...asked];
}

/// Those of one kind, or all. What people did is all here however few entries are: alone it needs no place among them.
export function linesOf(entries: Schemas["Entry"][], actions: Schemas["Action"][], hasMore: boolean, kind?: string): Line[] {
  if (kind === OPERATOR) return told([], actions, false);
  const lines = told(entries, actions, hasMore);
  return kind ? lines.filter((line) => line.kind === kind) : lines;
}

/// Whether an entry notes that a run begins to undo: it is of no step. (`BEGUN` in crates/core/src/repair/plan.rs)
export function beginsUndo({ kind, name }: Pick<Line, "kind" | "name">): boolean {
  return kind === "undo" && name === "*";
}

export interface Said {
  text: string;
  /// A run that it names.
  run?: string;
}

type Fields = Record<string, unknown>;

/// What the engine itself noted with an entry, in words: until when something waits, why an attempt failed, what a repair was. Nothing of
/// what the code of a run recorded, which is shown as it is.
export function noteOf({ kind, phase, name, body }: Pick<Line, "kind" | "phase" | "name" | "body">, say: (time: number) => string): Said | null {
  if (kind === "undo" && phase === "opened") return { text: beginsUndo({ kind, name }) ? "from here on the run undoes what it did, the last first" : "can be undone from here on" };
  const note = fieldsOf(body);
  if (!note) return null;
  if (kind === "revise") return repair(note);
  if (phase === "opened") return opening(note, say);
  if (phase === "failed") return { text: messageOf(note) ?? "" };
  if (phase !== "attempt") return null;
  const [why, next] = [messageOf(note.failure), timeOf(note.next_at)];
  const then = note.gave_up === true ? "; it was the last" : next !== null ? `; the next comes ${say(next)}` : "";
  return { text: `attempt ${String(note.attempt)} failed${why ? `: ${why}` : ""}${then}` };
}

function opening(note: Fields, say: (time: number) => string): Said | null {
  const until = timeOf(note.until);
  const run = typeof note.run === "string" ? note.run : undefined;
  const words = [
    typeof note.event === "string" && `for event ${note.event}`, until !== null && `until ${say(until)}`,
    run && (note.detached === true ? "started, and not waited for" : "started"),
  ].filter(Boolean);
  return words.length ? { text: words.join(", "), run } : null;
}

function repair(note: Fields): Said {
  const run = typeof note.fork_of === "string" ? note.fork_of : undefined;
  const of = fieldsOf(fieldsOf(note.result)?.of);
  const what = run ? "forked from another run" : of ? `the result of ${String(of.op)} ${String(of.name)} was replaced` : "tried again";
  return { text: `${what}${typeof note.by === "string" ? ` by ${note.by}` : ""}${typeof note.reason === "string" ? `: ${note.reason}` : ""}`, run };
}

/// What a failure says: that of the code has a message; those of Outlast have the name of what happened, and of what it happened to.
function messageOf(failure: unknown): string | undefined {
  const kept = fieldsOf(failure);
  const own = fieldsOf(kept?.own);
  if (typeof own?.message === "string") return own.message;
  const [name, about] = Object.entries(fieldsOf(kept?.outlast) ?? {})[0] ?? [];
  if (!name) return undefined;
  const { what, message, reason } = fieldsOf(about) ?? {};
  return [what, name.replaceAll("_", " "), message ?? reason].filter((one) => typeof one === "string").join(" ");
}

/// The journal has microseconds.
function timeOf(micros: unknown): number | null {
  const count = micros instanceof Exact ? Number(micros.text) : micros;
  return typeof count === "number" && Number.isFinite(count) ? count / 1000 : null;
}

function fieldsOf(value: unknown): Fields | undefined {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Exact) ? (value as Fields) : undefined;
}
