// Entries and what people did, in the order of time: without a browser, so that it can be tested.
import type { Schemas } from "../api/client";

export interface Line {
  key: string;
  pos?: number;
  at: string;
  kind: string;
  phase: string;
  name: string;
  body?: unknown;
  /// Instead of a body.
  words?: string;
}

/// What people did is called like this among the kinds.
export const OPERATOR = "operator";

/// Both, oldest first. Where there are more entries than are here, what people did behind the last of them is left for later.
export function told(entries: Schemas["Entry"][], actions: Schemas["Action"][], hasMore: boolean): Line[] {
  const lines: Line[] = entries.map((entry) => ({ key: `e${entry.pos}`, pos: entry.pos, at: entry.at, kind: entry.op, phase: entry.phase, name: entry.name, body: entry.body }));
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
