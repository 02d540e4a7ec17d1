import { describe, expect, it } from "vitest";
import { changed, fields } from "./form";
import { Exact, parse, write } from "./json";
import { emptied, lastOf, schemaOf } from "./shape";
import type { Step } from "./state";

const step = (op: string, name: string, result: unknown, state = "completed") => ({ op, name, result, state }) as Step;

describe("what a message looks like", () => {
  it("is learnt from the last one of its name, whichever it was of several", () => {
    const steps = [step("event", "approval", { by: "ann" }), step("event", "approval#2", { by: "bob", ok: true }), step("event", "approval#3", null, "waiting"), step("promise", "approval", 7), step("step", "approval", 8)];
    expect(lastOf(steps, "event", "approval")).toEqual({ value: { by: "bob", ok: true } });
    expect(lastOf(steps, "promise", "approval")).toEqual({ value: 7 });
    expect(lastOf(steps, "event", "other")).toBeUndefined();
    expect(lastOf([step("event", "approval", null)], "event", "approval")).toBeUndefined();
  });
  it("has its fields, and nothing that somebody else said", () => {
    const said = parse('{"by":"ann","ok":true,"cents":9007199254740993,"lines":[{"a":1}],"at":null,"in":{"city":"Ulm"}}');
    expect(emptied(said)).toEqual({ by: "", ok: false, cents: 0, lines: [], at: null, in: { city: "" } });
  });
  it("becomes a form where its fields are plain, whose text is what is sent", () => {
    const form = fields(schemaOf({ by: "ann", ok: true, cents: new Exact("1.0"), lines: [] }))!;
    expect(form.map((one) => [one.name, one.kind])).toEqual([["by", "text"], ["ok", "boolean"], ["cents", "number"], ["lines", "json"]]);
    expect(changed(write(emptied({ by: "ann", ok: true })), form[0]!, "eve")).toBe('{\n  "by": "eve",\n  "ok": false\n}');
    expect(fields(schemaOf("yes"))).toMatchObject([{ name: "", kind: "text" }]);
    for (const none of [null, [1]]) expect(fields(schemaOf(none))).toBeNull();
  });
});
