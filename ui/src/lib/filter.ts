// What the runs list is narrowed to: words `field:value` as people type them, chips as they see them, and the address as
// it is sent around. The address is the only place where it is kept.

/// In the order of the chips. `status` and `tag` can be there several times.
export const FIELDS = ["status", "def", "queue", "key", "tag", "parent", "node", "version", "owner", "stuck", "ended", "failure", "since", "until", "q"] as const;
export type Field = (typeof FIELDS)[number];
const SEVERAL: readonly Field[] = ["status", "tag"];

export interface Term {
  field: Field;
  value: string;
}

export type Search = Partial<Record<Field, string | string[]>>;

export const STATUSES = [
  "ready", "running", "waiting", "paused", "blocked", "undoing", "undo_failed", "completed", "failed", "cancelled",
] as const;

/// States that people look for together: queued, running and retrying ones; scheduled, waiting and paused ones; those that are done; those
/// that failed. Each status of the store is in one of them: what is to begin later stands in line there, and what its code tries again
/// later waits. Blocked ones, and those whose undo gave up, are in none: they need somebody.
export const GROUPS = {
  active: ["ready", "running", "undoing"], waiting: ["waiting", "paused"], done: ["completed", "cancelled"], failed: ["failed"],
} as const;

/// What people see and say, in the words of the store. The chips show what it became.
const SAID: Record<string, readonly string[]> = {
  queued: ["ready"], scheduled: ["ready"], retrying: ["ready", "waiting"], active: GROUPS.active, done: GROUPS.done,
};

/// Such words, for whoever has begun to type one.
export function saidLike(begun: string): string[] {
  return Object.keys(SAID).filter((word) => word.startsWith(begun));
}

function statuses(value: string): readonly string[] {
  return SAID[value] ?? [value];
}

/// Reads words. What is no `field:value` is an id or a key; quotes keep spaces together.
export function read(text: string): Term[] {
  const terms: Term[] = [];
  for (const [, quotedField, quoted, plain] of text.matchAll(/(?:([a-z]+):)?"((?:[^"\\]|\\.)*)"|(\S+)/g)) {
    if (quoted !== undefined) {
      const value = quoted.replace(/\\(.)/g, "$1");
      const field = FIELDS.find((known) => known === quotedField);
      terms.push(field ? { field, value } : { field: "q", value: quotedField ? `${quotedField}:${value}` : value });
      continue;
    }
    const colon = plain!.indexOf(":");
    const field = FIELDS.find((known) => known === plain!.slice(0, colon));
    const value = plain!.slice(colon + 1);
    if (!field) terms.push({ field: "q", value: plain! });
    else if (!value) continue;
    else if (field === "status") terms.push(...value.split(",").filter(Boolean).flatMap(statuses).map((one) => ({ field, value: one })));
    else terms.push({ field, value });
  }
  return terms;
}

/// Words that `read` reads back.
export function words(terms: Term[]): string {
  return terms
    .map(({ field, value }) => (field === "q" && !value.includes(":") ? quote(value) : `${field}:${quote(value)}`))
    .join(" ");
}

/// Adds terms to others: a field that can be there once is replaced, the same thing is there once.
export function add(terms: Term[], more: Term[]): Term[] {
  let all = terms;
  for (const term of more) {
    const same = (other: Term) => other.field === term.field && (!SEVERAL.includes(term.field) || other.value === term.value);
    all = [...all.filter((other) => !same(other)), term];
  }
  return all.toSorted((a, b) => FIELDS.indexOf(a.field) - FIELDS.indexOf(b.field));
}

/// As the address has it.
export function toSearch(terms: Term[]): Search {
  const search: Search = {};
  for (const field of FIELDS) {
    const values = terms.filter((term) => term.field === field).map((term) => term.value);
    if (values.length) search[field] = SEVERAL.includes(field) ? values : values.at(-1)!;
  }
  return search;
}

/// What an address says; whatever else it says is left away.
export function fromSearch(search: Record<string, unknown>): Term[] {
  return FIELDS.flatMap((field) => {
    const found = search[field];
    const values = (Array.isArray(found) ? found : [found]).filter((value) => value !== undefined && value !== null && value !== "");
    return (SEVERAL.includes(field) ? values : values.slice(0, 1)).flatMap((value) => (field === "status" ? statuses(String(value)) : [String(value)])).map((value) => ({ field, value }));
  });
}

/// What a list without any end shows: enough for a day's work, and little enough for any database.
export const WINDOW = "24h";
const UNFINISHED: readonly string[] = ["ready", "running", "waiting", "paused", "blocked", "undoing", "undo_failed"];
const NARROW: readonly Field[] = ["ended", "failure", "since", "until", "q", "key", "parent", "node", "stuck"];

/// Whether only the last day is looked at, because nothing else bounds what is found. Those that are not finished are few,
/// and one that has waited for a week is what somebody looks for: they are shown however old they are.
export function isWindowed(terms: Term[]): boolean {
  const statuses = terms.filter((term) => term.field === "status");
  const open = statuses.length > 0 && statuses.every((term) => UNFINISHED.includes(term.value));
  return !open && !terms.some((term) => NARROW.includes(term.field));
}

/// The terms that are asked for: with the window, where there is one. `since:all` says that there shall be none.
export function asked(terms: Term[]): Term[] {
  if (isWindowed(terms)) return add(terms, [{ field: "since", value: WINDOW }]);
  return terms.filter((term) => !(term.field === "since" && term.value === "all"));
}

/// As bulks want it: the words of the command line, which know no `q`. What failures say they are told apart.
export function bulkWords(all: Term[]): string | null {
  const terms = all.filter((term) => term.field !== "failure");
  if (terms.some(({ field, value }) => field === "q" && value.startsWith("run_"))) return null;
  return terms.map(({ field, value }) => `${field === "q" ? "key" : field}:${quote(value)}`).join(" ");
}

/// A value that can be told from what stands around it.
function quote(value: string): string {
  return /[\s"\\]/.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value;
}
