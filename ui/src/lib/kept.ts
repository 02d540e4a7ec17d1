// What this browser keeps for whoever uses it: views that they saved, columns that they chose. Nothing here is needed: a
// browser that keeps nothing shows what everybody gets.

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
  key: ["Key or id", true, "minmax(130px, 1.3fr)"],
  queue: ["Queue", true, "minmax(70px, 0.7fr)"],
  attempt: ["Attempt", true, "64px"],
  created: ["Started", true, "92px"],
  took: ["Took", true, "minmax(96px, 0.7fr)"],
  tags: ["Tags, error", true, "minmax(90px, 1.4fr)"],
  id: ["Id", false, "290px"],
  node: ["Node", false, "92px"],
  priority: ["Priority", false, "70px"],
  parent: ["Started by", false, "92px"],
  owner: ["Owner", false, "100px"],
  tenant: ["Tenant", false, "100px"],
} as const satisfies Record<string, [string, boolean, string]>;
export type Column = keyof typeof COLUMNS;
const NAMES = Object.keys(COLUMNS) as Column[];

/// The columns that an address names, or else those that were chosen last.
export function columns(named: unknown): Column[] {
  const text = typeof named === "string" ? named : load<string>("columns", "");
  const found = NAMES.filter((name) => String(text).split(",").includes(name));
  return found.length ? found : NAMES.filter((name) => COLUMNS[name][1]);
}

export function keepColumns(chosen: Column[]): string {
  const text = chosen.join(",");
  keep("columns", text);
  return text;
}

// The list that was looked at last, so that one can walk along it from run to run.
let listed: string[] = [];

export function keepList(ids: string[]) {
  listed = ids;
}

/// The run before (-1) or after (1) this one in that list.
export function neighbour(id: string, step: 1 | -1): string | undefined {
  const at = listed.indexOf(id);
  return at < 0 ? undefined : listed[at + step];
}
