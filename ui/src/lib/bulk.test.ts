import { describe, expect, it } from "vitest";
import { what, which } from "./bulk";

describe("a bulk", () => {
  it("says what it does", () => {
    expect([{ ask: { op: "resume" } }, { ask: { op: { cancel: { reason: "x" } } } }, { ask: null }].map(what)).toEqual(["resume", "cancel", "bulk"]);
  });
  it("says which runs it is for, and never that it is for all of them when it is not", () => {
    const of = (ask: object) => which({ ask });
    expect(of({ filter: {} })).toBe("all runs");
    expect(of({ filter: { definition: "order", statuses: ["failed", "cancelled"], tags: [["city", "Bern"]], oldest_first: false } })).toBe("def:order status:failed,cancelled tag:city=Bern");
    expect(of({ filter: {}, runs: ["run_1"] })).toBe("run_1");
    expect(of({ filter: {}, runs: ["run_1", "run_2"] })).toBe("2 chosen runs");
    expect(of({ filter: { definition: "pay" }, failure: "f7" })).toBe("def:pay failed like f7");
  });
});
