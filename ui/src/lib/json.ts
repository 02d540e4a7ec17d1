// JSON that loses nothing: a number that JavaScript cannot hold keeps its text. `JSON.parse` would show
// 9007199254740993 as 9007199254740992, and somebody would look for the wrong order.

/// A number that is shown and sent as it was written.
export class Exact {
  constructor(readonly text: string) {}
  toString() {
    return this.text;
  }
}

export type Json = null | boolean | number | string | Exact | Json[] | { [key: string]: Json };

export class JsonError extends Error {}

/// An object whose keys stand as they were written, also those that look like numbers: a plain one has these first, in their own order. It is
/// used like any other, and is not one that others copy key by key.
class Ordered {}

/// An object of these entries, in this order. Of a key that is there twice the last value counts.
export function ordered(entries: [string, Json][]): { [key: string]: Json } {
  const keys = [...new Set(entries.map(([key]) => key))];
  const found: { [key: string]: Json } = keys.some((key) => NUMBERED.test(key)) ? Object.create(Ordered.prototype) : {};
  // A key of this name must not change what the object is.
  for (const [key, value] of entries) Object.defineProperty(found, key, { value, enumerable: true, configurable: true, writable: true });
  if (!(found instanceof Ordered)) return found;
  // What is written into it later is behind the others.
  return new Proxy(found, { ownKeys: (target) => [...new Set([...keys.filter((key) => Object.hasOwn(target, key)), ...Reflect.ownKeys(target)])] });
}
const NUMBERED = /^\d+$/;

/// Reads JSON. Numbers that come back from JavaScript in other letters are kept as `Exact`.
export function parse(text: string): Json {
  let at = 0;
  const wrong = (): never => {
    throw new JsonError(at >= text.length ? "the JSON ends too early" : `not JSON at character ${at + 1}`);
  };
  const space = () => {
    while (at < text.length && " \t\n\r".includes(text[at]!)) at++;
  };
  const word = <T>(letters: string, value: T): T => {
    if (!text.startsWith(letters, at)) wrong();
    at += letters.length;
    return value;
  };
  const string = (): string => {
    const start = at++;
    for (; text[at] !== '"'; at++) {
      if (at >= text.length) wrong();
      if (text[at] === "\\") at++;
    }
    at++;
    return JSON.parse(text.slice(start, at)) as string;
  };
  const number = (): number | Exact => {
    NUMBER.lastIndex = at;
    const found = NUMBER.exec(text)?.[0];
    if (!found) return wrong();
    at += found.length;
    const value = Number(found);
    return String(value) === found ? value : new Exact(found);
  };
  const value = (depth: number): Json => {
    if (depth > 500) throw new JsonError("the JSON is nested more than 500 deep");
    space();
    switch (text[at]) {
      case "{": {
        const found: [string, Json][] = [];
        at++;
        space();
        if (text[at] === "}") return at++, {};
        for (;;) {
          space();
          if (text[at] !== '"') wrong();
          const key = string();
          space();
          if (text[at] !== ":") wrong();
          at++;
          found.push([key, value(depth + 1)]);
          space();
          if (text[at] === ",") at++;
          else if (text[at] === "}") return at++, ordered(found);
          else wrong();
        }
      }
      case "[": {
        const found: Json[] = [];
        at++;
        space();
        if (text[at] === "]") return at++, found;
        for (;;) {
          found.push(value(depth + 1));
          space();
          if (text[at] === ",") at++;
          else if (text[at] === "]") return at++, found;
          else wrong();
        }
      }
      case '"':
        return string();
      case "t":
        return word("true", true);
      case "f":
        return word("false", false);
      case "n":
        return word("null", null);
      default:
        return number();
    }
  };
  const whole = value(0);
  space();
  if (at < text.length) wrong();
  return whole;
}

/// What might be a number that JavaScript writes in other letters, or a key that it puts elsewhere; letters inside of texts may look like one too.
const SUSPECT = /(?:^|"\s*:|[[,])\s*(?:-0|-?\d+[.eE]|-?\d{16})|"\d+"\s*:/;

/// What `parse` gives, of JSON that the server wrote. A browser reads it much faster by itself, and before anything of ours is
/// compiled: it does where no number, and no order, can be lost by that.
export function quick(text: string): Json {
  return SUSPECT.test(text) ? parse(text) : (JSON.parse(text) as Json);
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/// Writes JSON, exact numbers as they were.
export function write(value: unknown, indent = 0, depth = 0): string {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const [open, gap] = indent ? ["\n" + " ".repeat(indent * (depth + 1)), " "] : ["", ""];
  const close = indent ? "\n" + " ".repeat(indent * depth) : "";
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    return "[" + value.map((item) => open + write(item, indent, depth + 1)).join(",") + close + "]";
  }
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  if (!entries.length) return "{}";
  const line = ([key, item]: [string, unknown]) => open + JSON.stringify(key) + ":" + gap + write(item, indent, depth + 1);
  return "{" + entries.map(line).join(",") + close + "}";
}

/// What the server writes in place of what it hides.
const HIDDEN = "[redacted]";

/// Whether something of it is hidden: sent back, the mark would become the value.
export function isHidden(value: Json): boolean {
  if (value === HIDDEN) return true;
  // The server looks into texts that are JSON themselves, and so does this.
  if (typeof value === "string") return /^\s*[[{]/.test(value) && value.includes(HIDDEN) && hasHidden(value);
  if (value === null || typeof value !== "object" || value instanceof Exact) return false;
  return Object.values(value).some(isHidden);
}

/// The same of a text that may be no JSON yet.
export function hasHidden(text: string): boolean {
  try {
    return isHidden(parse(text));
  } catch {
    return false;
  }
}

export interface Hit {
  /// As people write it: `items[3].price`.
  path: string;
  text: string;
}

/// The path one further: `items`, `items[3]`, `items[3].price`, `["a key"]`.
export function pathTo(path: string, next: string | number): string {
  if (typeof next === "number") return `${path}[${next}]`;
  return /^[A-Za-z_]\w*$/.test(next) ? `${path}${path && "."}${next}` : `${path}[${JSON.stringify(next)}]`;
}

/// Where a key or a value has these letters, at most so many.
export function find(value: Json, letters: string, most: number): Hit[] {
  const wanted = letters.toLowerCase();
  const found: Hit[] = [];
  const look = (one: Json, path: string, key: string) => {
    if (found.length >= most) return;
    const isBranch = one !== null && typeof one === "object" && !(one instanceof Exact);
    const text = isBranch ? "" : write(one);
    if (key.toLowerCase().includes(wanted) || text.toLowerCase().includes(wanted)) found.push({ path: path || "(all)", text: text.length > 120 ? `${text.slice(0, 120)}…` : text });
    if (!isBranch) return;
    if (Array.isArray(one)) one.forEach((item, place) => look(item, pathTo(path, place), ""));
    else for (const [name, item] of Object.entries(one)) look(item, pathTo(path, name), name);
  };
  look(value, "", "");
  return found;
}
