// What an error tells, in fields that people read: without a browser, so that it can be tested. What it is made of is up to whoever wrote
// the code; the ways in which most people write errors are known here, and the rest is shown as it is.
import { Exact, type Json } from "../lib/json";

export interface Told {
  /// Whose it is: the code's own, or one of Outlast's.
  isOwn: boolean;
  type?: string;
  message: string;
  /// What lies behind it, the outermost first.
  causes: string[];
  stack?: string;
  /// What else it has.
  rest?: Json;
}

type Fields = { [key: string]: Json };

const TYPES = ["type", "kind", "code", "name"];
const CAUSES = ["causes", "cause", "source"];
const STACKS = ["stack", "backtrace", "trace"];

/// `{"own": {"message", "value"}}` or `{"outlast": {"timed_out": {…}}}`.
export function toldOf(error: { message: string; detail: unknown }): Told {
  const detail = fieldsOf(error.detail as Json);
  const own = fieldsOf(detail?.own);
  if (own) return told(own.value ?? null, error.message, true);
  return told(detail?.outlast ?? (error.detail as Json) ?? null, error.message, false);
}

function told(value: Json, message: string, isOwn: boolean): Told {
  // A variant without fields is its name.
  if (typeof value === "string") return { isOwn, type: value !== message && /^\w+$/.test(value) ? words(value) : undefined, message, causes: [] };
  const variant = variantOf(value);
  const fields = variant ? fieldsOf(variant[1]) : fieldsOf(value);
  if (!fields) return { isOwn, type: variant && words(variant[0]), message, causes: [], rest: value === null || variant?.[1] === message ? undefined : value };
  const type = variant?.[0] ?? textOf(fields, TYPES);
  const left = Object.entries(fields).filter(([name, one]) => !CAUSES.includes(name) && !STACKS.includes(name) && one !== message && one !== type && !isEmpty(one));
  return { isOwn, type: type && words(type), message, causes: causesOf(fields), stack: textOf(fields, STACKS), rest: left.length ? Object.fromEntries(left) : undefined };
}

/// The one name that everything else stands below: how an enum is written. Of names in small letters only those of something with fields,
/// because any field may be called so.
function variantOf(value: Json): [string, Json] | undefined {
  const entries = Object.entries(fieldsOf(value) ?? {});
  if (entries.length !== 1) return undefined;
  const [name, inside] = entries[0]!;
  return /^[A-Z]\w*$/.test(name) || (/^[a-z_]+$/.test(name) && fieldsOf(inside) && !CAUSES.includes(name)) ? [name, inside] : undefined;
}

/// A list of texts, or one within the other.
function causesOf(fields: Fields): string[] {
  for (const name of CAUSES) {
    const one = fields[name];
    if (Array.isArray(one)) return one.map((cause) => (typeof cause === "string" ? cause : (textOf(fieldsOf(cause) ?? {}, ["message"]) ?? ""))).filter(Boolean);
    if (typeof one === "string" && one) return [one];
    const inner = fieldsOf(one);
    if (inner) return [textOf(inner, ["message", ...TYPES]) ?? "", ...causesOf(inner)].filter(Boolean);
  }
  return [];
}

function textOf(fields: Fields, names: string[]): string | undefined {
  return names.map((name) => fields[name]).find((one): one is string => typeof one === "string" && one !== "");
}

function fieldsOf(value: Json | undefined): Fields | undefined {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Exact) ? value : undefined;
}

function isEmpty(value: Json): boolean {
  return value === null || value === "" || (Array.isArray(value) && !value.length);
}

/// `timed_out` as people write it; names of types stay as they are.
function words(name: string): string {
  return /^[a-z_]+$/.test(name) ? name.replaceAll("_", " ") : name;
}
