// A bulk in words: what is done, and to which runs. Without a browser, so that it can be tested.
import { write } from "./json";

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
const NAMES: Record<string, string> = { definition: "def", statuses: "status" };
