// What a message looks like, learnt from one that came before: nobody declares what events and promises carry.
import { Exact, type Json } from "./json";
import { plainName, type Step } from "./state";

/// What the last message of this name gave, among these steps; the newest is last. Nothing where none came.
export function lastOf(steps: Step[], op: "event" | "promise", name: string): { value: Json } | undefined {
  const found = steps.findLast((step) => step.op === op && plainName(step) === name && step.state === "completed" && !step.previews && step.result != null);
  return found && { value: found.result as Json };
}

/// The same fields, with nothing in them: what somebody else said must not be said again by a click.
export function emptied(value: Json): Json {
  if (value instanceof Exact || typeof value === "number") return 0;
  if (typeof value === "string") return "";
  if (typeof value === "boolean") return false;
  if (value === null || Array.isArray(value)) return value && [];
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, emptied(one)]));
}

/// A JSON Schema that it fits, for a form.
export function schemaOf(value: Json): { [key: string]: Json } {
  if (value instanceof Exact || typeof value === "number") return { type: "number" };
  if (typeof value === "string") return { type: "string" };
  if (typeof value === "boolean") return { type: "boolean" };
  if (value === null || Array.isArray(value)) return {};
  const names = Object.keys(value);
  return { type: "object", properties: Object.fromEntries(names.map((name) => [name, schemaOf(value[name]!)])), required: names };
}
