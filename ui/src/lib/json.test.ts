import { replaceEqualDeep } from "@tanstack/react-query";
import { describe, expect, it, vi } from "vitest";
import { Exact, find, hasHidden, JsonError, parse, quick, write } from "./json";

describe("lossless JSON", () => {
  it("keeps the text of numbers that JavaScript cannot hold", () => {
    for (const text of ["9007199254740993", "1.0", "0.10", "1e400", "-0", "123456789.123456789012", "12345678901234567890"]) {
      expect(parse(text)).toBeInstanceOf(Exact);
      expect(write(parse(text))).toBe(text);
      expect(write(parse(`{"a":[${text}]}`))).toBe(`{"a":[${text}]}`);
    }
  });
  it("knows what is hidden in it, wherever it stands", () => {
    for (const text of ['"[redacted]"', '{"a":{"iban":"[redacted]"}}', '[1,["[redacted]"]]', String.raw`{"input":"{\"iban\":\"[redacted]\",\"n\":1.0}"}`, JSON.stringify([JSON.stringify({ a: JSON.stringify(["[redacted]"]) })])]) expect(hasHidden(text), text).toBe(true);
    for (const text of ['{"[redacted]":1}', '"not [redacted]"', '"{ [redacted]"', '"[redacted] {"', JSON.stringify({ a: '{"b":"not [redacted]"}' }), "null", "9007199254740993", "{"]) expect(hasHidden(text), text).toBe(false);
  });
  it("reads what JSON.parse reads", () => {
    for (const text of ['{"a":1,"b":[true,false,null,"x\\"\\\\\\u00e9\\n"],"c":{}}', "[]", ' [ 1 , 2.5 ] ', '"\\\\"', "-3", '{"__proto__":1}']) {
      expect(JSON.parse(write(parse(text)))).toEqual(JSON.parse(text));
    }
  });
  it("is read by the browser itself only where that loses nothing", () => {
    for (const number of ["9007199254740993", "1.0", "0.10", "1e400", "-0", "12345678901234567890", "-9007199254740993"]) {
      for (const text of [number, `[${number}]`, `{"a":${number}}`, `{"a" : ${number}}`, `[1, ${number}]`, `[1,\n${number}]`]) expect(write(quick(text)), text).toBe(write(parse(text)));
    }
    const native = vi.spyOn(JSON, "parse");
    const run = '{"id":"run_1e5","at":"2026-11-17T19:38:41.123456Z","input":{"cents":89900,"note":"12:41.5"},"attempt":2,"version":-3}';
    expect(quick(run)).toEqual(parse(run));
    expect(native.mock.calls.filter(([text]) => text === run)).toHaveLength(1);
    native.mockRestore();
  });
  it("keeps the order of keys that look like numbers", () => {
    const text = '{"b":1,"10":2,"2":{"x":1,"1":[{"3":1,"0":2}]},"a":3}';
    for (const value of [parse(text), quick(text)]) {
      expect(write(value)).toBe(text);
      expect(JSON.stringify(value)).toBe(text);
      expect(Object.keys(value as object)).toEqual(["b", "10", "2", "a"]);
      expect(Object.entries(value as object)[1]).toEqual(["10", 2]);
      expect((value as Record<string, unknown>)["10"]).toBe(2);
      expect({ ...(value as object) }).toEqual(JSON.parse(text));
    }
    // Of a key that is there twice the last value counts, as everywhere.
    expect(write(parse('{"2":1,"1":2,"2":3}'))).toBe('{"2":3,"1":2}');
    expect(write(parse('{"2":1,"__proto__":{"a":1},"1":2}'))).toBe('{"2":1,"__proto__":{"a":1},"1":2}');
    expect(find(parse(text), "0", 10).map((hit) => hit.path)).toEqual(['["10"]', '["2"]["1"][0]["0"]']);
  });
  it("keeps that order where an answer takes the place of another", () => {
    const [before, after] = ['{"input":{"2":1,"1":2},"at":1}', '{"input":{"2":1,"1":2},"at":2}'].map(quick);
    expect(write(replaceEqualDeep(before, after))).toBe('{"input":{"2":1,"1":2},"at":2}');
  });
  it("refuses what is no JSON and says where", () => {
    for (const text of ["", "{", "[1,]", "01", "{a:1}", '"', "nul", "1 2", '{"a" 1}', "[1", "+1", ".5"]) {
      expect(() => parse(text), text).toThrow();
    }
    expect(() => parse("[" .repeat(600))).toThrow(JsonError);
  });
  it("finds keys and values, with the way to them", () => {
    const value = parse('{"items":[{"price":9007199254740993},{"a b":"Price tag"}],"x":null}');
    expect(find(value, "price", 10)).toEqual([{ path: "items[0].price", text: "9007199254740993" }, { path: 'items[1]["a b"]', text: '"Price tag"' }]);
    expect(find(value, "0993", 10)).toHaveLength(1);
    expect(find(value, "i", 1)).toHaveLength(1);
    expect(find(value, "nothing", 10)).toEqual([]);
  });
});
