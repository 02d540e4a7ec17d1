// What code says of its runs, in words: how often they are tried, how long they may take. Without a browser, so that it can be tested.
import { write } from "./json";
import { duration } from "./time";

type Said = Record<string, unknown>;

/// What is not said is left away.
export function optionWords(options: unknown, kind: string): string[] {
  if (!options || typeof options !== "object") return [];
  const { attempts, timeout_ms, http_timeout_ms, unique_ms, retention_ms, role, strict, undo, input_schema, ...others } = options as Said;
  const words = [
    // A workflow is not tried again: its steps are.
    kind === "job" && tries(attempts),
    span(timeout_ms, kind === "job" ? "for each attempt" : "from start to end"),
    span(http_timeout_ms, "for a call to another service"),
    unique(unique_ms),
    retention_ms != null && `kept ${kept(retention_ms)}`,
    role != null && `for the role ${String(role)}`,
    strict === true && "only with the code that it began with",
    undo === true && "can be undone",
    input_schema != null && "says what its input looks like",
    // What a newer node tells of is shown as it is.
    ...Object.entries(others).filter(([, value]) => value !== null && value !== false).map(([name, value]) => `${name}: ${write(value as never)}`),
  ];
  return words.filter((word): word is string => typeof word === "string" && word !== "");
}

function tries(attempts: unknown): string {
  const count = Number(attempts);
  if (attempts == null || !Number.isFinite(count)) return "";
  return count === 1 ? "one attempt" : count >= 4_294_967_295 ? "tried again without end" : `${count} attempts`;
}

function span(ms: unknown, what: string): string {
  return ms == null ? "" : `at most ${duration(Number(ms))} ${what}`;
}

function unique(ms: unknown): string {
  if (ms == null) return "";
  return Number(ms) ? `one with the same input in ${duration(Number(ms))}` : "one with the same input at a time";
}

function kept(retention: unknown): string {
  if (retention && typeof retention === "object") {
    const spans = Object.entries(retention).filter(([, ms]) => ms != null);
    return spans.map(([state, ms]) => `${duration(Number(ms))} when ${state}`).join(" and ") || "for good";
  }
  return `for ${duration(Number(retention))}`;
}
