import { describe, expect, it } from "vitest";
import { parse } from "../lib/json";
import { toldOf } from "./failure";

const own = (message: string, value: string) => toldOf({ message, detail: { own: { message, value: parse(value) } } });

describe("an error, as people read it", () => {
  it("has its causes, the outermost first, and says nothing twice", () => {
    expect(own("no room", '{"message":"no room","causes":["disk full","errno 28"]}')).toEqual({ isOwn: true, type: undefined, message: "no room", causes: ["disk full", "errno 28"], stack: undefined, rest: undefined });
    expect(own("a", '{"name":"IoError","message":"a","cause":{"message":"b","cause":{"message":"c"}},"stack":"at x\\nat y"}')).toMatchObject({ type: "IoError", causes: ["b", "c"], stack: "at x\nat y", rest: undefined });
  });
  it("has the name of its variant, and what the variant has", () => {
    expect(own("card declined by ACME", '{"Declined":{"by":"ACME","code":"51"}}')).toMatchObject({ type: "Declined", rest: { by: "ACME", code: "51" } });
    expect(own("it is closed", '"Closed"')).toMatchObject({ type: "Closed", causes: [] });
    expect(own("late", '{"Late":"late"}')).toMatchObject({ type: "Late", rest: undefined });
  });
  it("of Outlast says what happened to what", () => {
    const detail = { outlast: { timed_out: { what: "step charge", after_ms: 5000 } } };
    expect(toldOf({ message: "step charge timed out after 5000 ms", detail })).toMatchObject({ isOwn: false, type: "timed out", rest: { what: "step charge", after_ms: 5000 } });
  });
  it("keeps what nobody knows how to read", () => {
    expect(own("7", "[7,8]")).toMatchObject({ type: undefined, causes: [], rest: [7, 8] });
    expect(own("gone", '{"status":410}')).toMatchObject({ type: undefined, rest: { status: 410 } });
    expect(own("gone", '{"reason":"for good"}')).toMatchObject({ type: undefined, rest: { reason: "for good" } });
    expect(toldOf({ message: "x", detail: null })).toMatchObject({ message: "x", causes: [], rest: undefined });
    expect(toldOf({ message: "x", detail: {} })).toMatchObject({ message: "x", rest: undefined });
  });
});
