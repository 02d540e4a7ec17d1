// A form of a JSON Schema, as far as a form helps: fields of plain values. Whatever is more than that is written as JSON. What
// is typed changes the JSON text, which is the only thing that is sent.
import { Exact, type Json, ordered, parse, write } from "./json";

export interface Field {
  /// Of an object's field; empty where the whole input is one value.
  name: string;
  kind: "text" | "number" | "boolean" | "choice" | "json";
  hint?: string;
  required: boolean;
  /// Whether it has to be there and may be `null`: what is left empty is.
  nullable: boolean;
  choices: string[];
  /// Whether only whole numbers are meant.
  whole: boolean;
}

type Schema = { [key: string]: Json };

function isObject(value: unknown): value is Schema {
  return !!value && typeof value === "object" && !Array.isArray(value) && !(value instanceof Exact);
}

/// The same without `null`, which is what an empty field means: as a list of types, or as one of two schemas.
function withoutNull(schema: Schema): Schema {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((one) => one !== "null");
    return types.length === 1 ? { ...schema, type: types[0]! } : schema;
  }
  for (const name of ["anyOf", "oneOf"]) {
    const either = schema[name];
    if (!Array.isArray(either)) continue;
    const others = either.filter((one) => !(isObject(one) && one.type === "null"));
    if (others.length === 1 && others.length < either.length && isObject(others[0])) return { ...schema, [name]: null, ...others[0] };
  }
  return schema;
}

function field(name: string, given: unknown, required: boolean): Field | null {
  if (!isObject(given)) return null;
  const schema = withoutNull(given);
  const hint = [schema.title, schema.description].filter((one) => typeof one === "string").join(": ") || undefined;
  const choices = Array.isArray(schema.enum) ? schema.enum.filter((one) => one !== null) : [];
  const isNullable = schema !== given || (Array.isArray(schema.enum) && schema.enum.includes(null));
  const base = { name, hint, required: required && !isNullable, nullable: required && isNullable, choices: [], whole: false };
  if (choices.length && choices.every((one) => typeof one === "string")) return { ...base, kind: "choice", choices };
  switch (schema.type) {
    case "string":
      return { ...base, kind: "text" };
    case "number":
    case "integer":
      return { ...base, kind: "number", whole: schema.type === "integer" };
    case "boolean":
      return { ...base, kind: "boolean" };
    default:
      // Of a part, it is written as JSON beside the others; of the whole, that is all there is.
      return name ? { ...base, kind: "json" } : null;
  }
}

/// The fields of a form, or nothing where a form would hide something.
export function fields(schema: unknown): Field[] | null {
  if (!isObject(schema)) return null;
  if (schema.type !== "object") {
    const one = field("", schema, true);
    return one && [one];
  }
  if (!isObject(schema.properties)) return null;
  const required = Array.isArray(schema.required) ? schema.required : [];
  const { properties } = schema;
  const found = inOrder(Object.keys(properties), required).map((name) => field(name, properties[name], required.includes(name)));
  if (!found.length || !found.every((one) => one !== null)) return null;
  // A form of nothing but JSON is no help.
  return found.some((one) => one.kind !== "json") ? found : null;
}

/// Names as the schema has them; what is in the order of the alphabet is in no order at all, because that is how most programs write what they
/// have read. Then those that have to be there are first: they stand in a list, which is as somebody wrote it.
function inOrder(names: string[], required: Json[]): string[] {
  if (names.some((name, nth) => nth > 0 && names[nth - 1]! > name)) return names;
  return [...new Set([...required.filter((name): name is string => typeof name === "string" && names.includes(name)), ...names])];
}

function read(text: string): Json {
  try {
    return parse(text);
  } catch {
    return null;
  }
}

/// What stands in a field now, as people see it; nothing where there is nothing of its kind.
export function shown(text: string, { name, kind }: Field): string {
  const whole = read(text);
  const value = name === "" ? whole : isObject(whole) ? whole[name] : undefined;
  if (value === undefined || value === null) return "";
  if (kind === "json") return write(value, 2);
  if (kind === "number") return typeof value === "number" || value instanceof Exact ? String(value) : "";
  return typeof value === "string" ? value : typeof value === "boolean" ? String(value) : "";
}

/// The text with another value in a field. What is left empty and not needed is left away.
export function changed(text: string, field: Field, typed: string): string {
  const value = valueOf(field, typed);
  if (field.name === "") return write(value ?? null);
  const before = read(text);
  const entries = isObject(before) ? Object.entries(before) : [];
  if (value === undefined) return write(ordered(entries.filter(([name]) => name !== field.name)), 2);
  return write(ordered([...entries, [field.name, value]]), 2);
}

export function isJson(text: string): boolean {
  try {
    parse(text);
    return true;
  } catch {
    return false;
  }
}

function valueOf({ kind, required, nullable }: Field, typed: string): Json | undefined {
  if (typed.trim() === "" && nullable) return null;
  if (kind === "json") return isJson(typed) ? parse(typed) : undefined;
  if (kind === "boolean") return typed === "true";
  if (typed === "" && (kind !== "text" || !required)) return undefined;
  if (kind !== "number") return typed;
  // As it was typed: a form must not round either.
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(typed) ? parse(typed) : typed;
}
