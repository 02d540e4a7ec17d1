import { describe, expect, it } from "vitest";
import { told } from "./told";

const entry = (pos: number, second: number) => ({ pos, at: `2027-01-01T00:00:0${second}Z`, op: "step", phase: "done", name: `s${pos}`, body: null });
const action = (name: string, second: number, status = 200) => ({ at: `2027-01-01T00:00:0${second}Z`, actor: "ann", action: `run.${name}`, reason: "why not", status });

describe("the history", () => {
  it("has what people did where it happened", () => {
    const lines = told([entry(1, 1), entry(2, 4)], [action("cancel", 5, 403), action("pause", 2)], false);
    expect(lines.map((line) => line.name)).toEqual(["s1", "pause", "s2", "cancel"]);
    expect(lines[1]).toMatchObject({ kind: "operator", words: "ann: why not", phase: "done" });
    expect(lines[3]).toMatchObject({ phase: "refused" });
  });
  it("keeps the order of entries, and leaves for later what comes behind entries that are not here yet", () => {
    const lines = told([entry(1, 5), entry(2, 4)], [action("pause", 6)], true);
    expect(lines.map((line) => line.name)).toEqual(["s1", "s2"]);
  });
});
