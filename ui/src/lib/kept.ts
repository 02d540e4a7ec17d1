// What this browser keeps for whoever uses it: views that they saved, columns that they chose, failures that they do not want
// to see, runs that they opened, where they put dividers. Nothing here is needed: a browser that keeps nothing shows what
// everybody gets. The page /settings shows all of it.
import { useSyncExternalStore } from "react";

export interface View {
  name: string;
  search: Record<string, string | string[]>;
}

function load<T>(name: string, usual: T): T {
  try {
    return (JSON.parse(localStorage.getItem(`outlast.${name}`) ?? "null") as T | null) ?? usual;
  } catch {
    return usual;
  }
}

function keep(name: string, value: unknown) {
  try {
    localStorage.setItem(`outlast.${name}`, JSON.stringify(value));
  } catch {
    // It lasts until the page is left.
  }
}

export function views(): View[] {
  const found = load<unknown>("views", []);
  if (!Array.isArray(found)) return [];
  return found.filter((one): one is View => !!one && typeof one.name === "string" && !!one.search && typeof one.search === "object");
}

/// A view of the same name is replaced.
export function saveView(view: View): View[] {
  const all = [...views().filter((one) => one.name !== view.name), view];
  keep("views", all);
  return all;
}

export function forgetView(name: string): View[] {
  const all = views().filter((one) => one.name !== name);
  keep("views", all);
  return all;
}

/// What can be shown of a run beside its state and definition, and whether it is unless somebody says otherwise.
export const COLUMNS = {
  key: ["Key or id", true, "minmax(104px, 1.3fr)"],
  queue: ["Queue", true, "minmax(70px, 0.7fr)"],
  attempt: ["Attempt", true, "64px"],
  created: ["Created", true, "92px"],
  took: ["Took, waits for", true, "minmax(96px, 1.1fr)"],
  tags: ["Tags, says", true, "minmax(90px, 1.4fr)"],
  id: ["Id", false, "124px"],
  node: ["Node", false, "92px"],
  priority: ["Priority", false, "70px"],
  parent: ["Started by", false, "92px"],
  error: ["Last error", false, "minmax(120px, 1.6fr)"],
  schedule: ["Schedule", false, "100px"],
  owner: ["Owner", false, "100px"],
  tenant: ["Tenant", false, "100px"],
} as const satisfies Record<string, [string, boolean, string]>;
export type Column = keyof typeof COLUMNS;
const NAMES = Object.keys(COLUMNS) as Column[];
const USUAL = NAMES.filter((name) => COLUMNS[name][1]).join();

// What is kept here is shown in several places at once.
const listeners = new Set<() => void>();
const subscribe = (call: () => void) => (listeners.add(call), () => void listeners.delete(call));

/// The columns that an address names, or else those that were chosen last.
export function columns(named: unknown): Column[] {
  const text = typeof named === "string" ? named : load<string>("columns", "");
  const found = NAMES.filter((name) => String(text).split(",").includes(name));
  return found.length ? found : NAMES.filter((name) => COLUMNS[name][1]);
}

export function keepColumns(chosen: Column[]): string {
  const text = chosen.join(",");
  keep("columns", text);
  listeners.forEach((call) => call());
  return text;
}

/// How the list is opened from elsewhere: with the columns that were chosen here in its address, so that whoever is sent it sees the same.
export function useListSearch(): { cols?: string } {
  const chosen = useSyncExternalStore(subscribe, () => columns(undefined).join());
  return chosen === USUAL ? {} : { cols: chosen };
}

/// Failures that somebody does not want to see here, by their fingerprints.
export function muted(): string[] {
  const found = load<unknown>("muted", []);
  return Array.isArray(found) ? found.filter((one): one is string => typeof one === "string") : [];
}

export function mute(fingerprint: string, isMuted: boolean) {
  keep("muted", [...muted().filter((one) => one !== fingerprint), ...(isMuted ? [fingerprint] : [])]);
  listeners.forEach((call) => call());
}

export function useMuted(): string[] {
  const text = useSyncExternalStore(subscribe, () => muted().join(" "));
  return text ? text.split(" ") : [];
}

/// A run that was opened here, and what people call it.
export interface Opened {
  id: string;
  name: string;
}
const MOST_OPENED = 10;

export function opened(): Opened[] {
  const found = load<unknown>("opened", []);
  return Array.isArray(found) ? found.filter((one): one is Opened => !!one && typeof one.id === "string" && typeof one.name === "string") : [];
}

export function keepOpened(run: Opened) {
  keep("opened", [run, ...opened().filter((one) => one.id !== run.id)].slice(0, MOST_OPENED));
}

// The keys with which runs of a definition were started last, for as long as the page is open: another day another run is meant.
const startKeys = new Map<string, string>();

export function startKey(definition: string): string {
  return startKeys.get(definition) ?? "";
}

export function keepStartKey(definition: string, key: string) {
  startKeys.set(definition, key);
}

/// How much of a page the part before a divider has, in percent.
export function share(name: string, usual: number): number {
  const found = Number(load<Record<string, unknown>>("shares", {})[name] ?? usual);
  return Number.isFinite(found) ? Math.min(90, Math.max(10, found)) : usual;
}

export function keepShare(name: string, percent: number) {
  keep("shares", { ...load<Record<string, number>>("shares", {}), [name]: Math.round(percent * 10) / 10 });
}

/// Who decodes payloads for this browser.
export interface Codec {
  url: string;
  /// Whether it gets the cookies that this browser has for it.
  cookies: boolean;
}

export function codec(): Codec | null {
  const found = load<{ url?: unknown; cookies?: unknown } | null>("codec", null);
  return found && typeof found.url === "string" ? { url: found.url, cookies: found.cookies === true } : null;
}

export function keepCodec(codec: Codec | null) {
  keep("codec", codec);
}

/// Everything that is kept, gone.
export function forgetAll() {
  try {
    for (const name of Object.keys(localStorage)) if (name.startsWith("outlast.")) localStorage.removeItem(name);
  } catch {
    // Then nothing is kept.
  }
}

// The list that was looked at last, so that one can walk along it from run to run.
let listed: string[] = [];

export function keepList(ids: string[]) {
  listed = ids;
}

/// The ids of runs that were on the screen: in that list, or opened.
export function seen(): string[] {
  return [...new Set([...listed, ...opened().map((run) => run.id)])];
}

/// The run before (-1) or after (1) this one in that list.
export function neighbour(id: string, step: 1 | -1): string | undefined {
  const at = listed.indexOf(id);
  return at < 0 ? undefined : listed[at + step];
}
