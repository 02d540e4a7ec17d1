// A bulk in words: what is done, and to which runs. Without a browser, so that it can be tested.
import { write } from "./json";
import { counted } from "./number";
import { isFinal } from "./state";
import { millis } from "./time";

interface Ask {
  op?: unknown;
  filter?: Record<string, unknown>;
  /// To these alone.
  runs?: unknown[];
  /// To those alone that failed like this.
  failure?: string;
}

/// What is done, in a word.
export function what(bulk: { ask?: unknown }): string {
  const op = (bulk.ask as Ask | null)?.op;
  if (typeof op === "string") return op;
  if (op && typeof op === "object") return Object.keys(op)[0] ?? "bulk";
  return "bulk";
}

/// Which runs, as people write it.
export function which(bulk: { ask?: unknown }): string {
  const ask = (bulk.ask as Ask | null) ?? {};
  const words: string[] = [];
  if (ask.runs?.length) words.push(ask.runs.length === 1 ? String(ask.runs[0]) : `${ask.runs.length.toLocaleString("en")} chosen runs`);
  for (const [name, value] of Object.entries(ask.filter ?? {})) {
    const word = NAMES[name] ?? name;
    if (name === "oldest_first" || name === "shards" || value === null || value === false) continue;
    if (name === "tags" && Array.isArray(value)) words.push(...value.map((tag) => `tag:${Array.isArray(tag) ? tag.join("=") : String(tag)}`));
    else words.push(`${word}:${Array.isArray(value) ? value.map(String).join(",") : typeof value === "object" ? write(value) : String(value)}`);
  }
  if (ask.failure) words.push(`failed like ${ask.failure}`);
  return words.join(" ") || "all runs";
}
const NAMES: Record<string, string> = { definition: "def", statuses: "status", ended_since: "ended", stuck_since: "stuck" };

interface Counted {
  status: string;
  message?: string | null;
  percent?: number | null;
  created_at: string;
  finished_at?: string | null;
  done: number;
  skipped: number;
  failed: number;
}

/// How many it has come to.
export function handled(bulk: Counted): number {
  return bulk.done + bulk.skipped + bulk.failed;
}

/// What is said to whoever aborts a bulk, where that came too late: nothing where it stops, or stands still by now.
export function tooLate({ status }: Pick<Counted, "status">): string | undefined {
  return isFinal(status) && status !== "cancelled" ? `Nothing was aborted: it had ${status === "failed" ? "failed" : "ended"} before that.` : undefined;
}

/// How many runs it is for, as far as it has counted them: `~40`, `10000 or more`. One that has ended has come to all that it will.
export function total(bulk: Counted): string | null {
  if (isFinal(bulk.status)) return counted(handled(bulk));
  return / of (~\d+|\d+ or more)/.exec(bulk.message ?? "")?.[1]?.replace(/\d+/, (count) => counted(Number(count))) ?? null;
}

/// Of what took no time nobody reads how many would be done in a minute.
const A_WHILE = 5000;

/// How many it does in a minute, and how long it still takes, in milliseconds.
export function pace(bulk: Counted, now: number): { rate: number; left?: number } | null {
  const spent = (millis(bulk.finished_at) ?? now) - (millis(bulk.created_at) ?? now);
  if (!handled(bulk) || spent < A_WHILE) return null;
  const left = bulk.percent && !isFinal(bulk.status) ? (spent * (100 - bulk.percent)) / bulk.percent : undefined;
  return { rate: Math.round((handled(bulk) * 60_000) / spent), left };
}
