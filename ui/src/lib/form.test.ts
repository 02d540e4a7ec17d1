import { describe, expect, it } from "vitest";
import { changed, fields, shown } from "./form";

const order = { type: "object", required: ["item"], properties: { item: { type: "string" }, cents: { type: "integer", description: "the price" }, fast: { type: "boolean" }, size: { enum: ["S", "L"] } } };

describe("a form", () => {
  it("has a field for each plain value, and says which are needed", () => {
    const found = fields(order)!;
    expect(found.map(({ name, kind, required }) => [name, kind, required])).toEqual([["item", "text", true], ["cents", "number", false], ["fast", "boolean", false], ["size", "choice", false]]);
    expect(found[1]).toMatchObject({ hint: "the price", whole: true });
    expect(fields({ type: "string" })).toMatchObject([{ name: "", kind: "text" }]);
  });
  it("has what is needed first, in the order in which somebody wrote that", () => {
    const properties = { a: { type: "string" }, cents: { type: "integer" }, item: { type: "string" }, z: { type: "string" } };
    const order = (required?: unknown[]) => fields({ type: "object", properties, required })!.map((one) => one.name);
    expect(order(["item", "cents"])).toEqual(["item", "cents", "a", "z"]);
    expect(order(["item", "nothing", 3, "toString"])).toEqual(["item", "a", "cents", "z"]);
    expect(order()).toEqual(["a", "cents", "item", "z"]);
    // One that has an order of its own has that.
    expect(fields({ type: "object", properties: { z: {}, a: { type: "string" } }, required: ["a"] })!.map((one) => one.name)).toEqual(["z", "a"]);
  });
  it("is none where it would hide something", () => {
    expect(fields({ type: "object", properties: { lines: { type: "array" } } })).toBeNull();
    expect(fields({ type: "array" })).toBeNull();
    expect(fields({ type: "object" })).toBeNull();
    expect(fields(null)).toBeNull();
  });
  it("takes what may be null for a plain value, however that is written", () => {
    const found = fields({ type: "object", required: ["a", "c"], properties: { a: { type: ["string", "null"] }, b: { anyOf: [{ type: "integer" }, { type: "null" }], description: "so many" }, c: { enum: ["S", null] } } })!;
    expect(found.map(({ kind, required, nullable }) => [kind, required, nullable])).toEqual([["text", false, true], ["choice", false, true], ["number", false, false]]);
    expect(found[2]).toMatchObject({ hint: "so many", whole: true });
    expect(JSON.parse(changed('{"a":"x","b":1}', found[0]!, ""))).toEqual({ a: null, b: 1 });
    expect(JSON.parse(changed('{"a":"x","b":1}', found[2]!, ""))).toEqual({ a: "x" });
  });
  it("has a place for JSON where a part is more than a plain value", () => {
    const [lines, item] = fields({ type: "object", required: ["lines"], properties: { item: { type: "string" }, lines: { type: "array" } } })!;
    expect([item!.kind, lines!.kind]).toEqual(["text", "json"]);
    const text = changed('{"item":"pen"}', lines!, '[{"n":9007199254740993}]');
    expect(text).toContain("9007199254740993");
    expect(JSON.parse(shown(text, lines!))).toHaveLength(1);
    expect(JSON.parse(changed(text, lines!, ""))).toEqual({ item: "pen" });
  });
  it("changes the text that is sent, and nothing else in it", () => {
    const [item, cents, fast] = fields(order)!;
    const text = changed('{"item":"pen","cents":9007199254740993,"note":1}', item!, "ink");
    expect(JSON.parse(text)).toMatchObject({ item: "ink", note: 1 });
    expect(text).toContain("9007199254740993");
    expect(shown(text, cents!)).toBe("9007199254740993");
    expect(changed(text, cents!, "12345678901234567890")).toContain("12345678901234567890");
    expect(JSON.parse(changed(text, cents!, ""))).toEqual({ item: "ink", note: 1 });
    expect(JSON.parse(changed("nonsense", fast!, "true"))).toEqual({ fast: true });
    expect(changed("null", fields({ type: "integer" })![0]!, "7")).toBe("7");
  });
  it("keeps the order of what was there", () => {
    const [field] = fields({ type: "object", properties: { a: { type: "string" } } })!;
    expect(changed('{"2":1,"a":"x","1":2}', field!, "y")).toBe('{\n  "2": 1,\n  "a": "y",\n  "1": 2\n}');
    expect(changed('{"2":1,"a":"x","1":2}', field!, "")).toBe('{\n  "2": 1,\n  "1": 2\n}');
  });
});
