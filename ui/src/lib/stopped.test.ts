import { describe, expect, it, vi } from "vitest";

vi.mock("../api/client", () => ({ api: {}, data: (answer: unknown) => answer }));
const { many, standing } = await import("./stopped");

describe("runs that stand still", () => {
  const run = (status: string, queue: string, unserved = false) => ({ status, queue, unserved });
  it("are told apart by what they lack", () => {
    const { unserved, blocked, undoFailed } = standing([
      run("blocked", "mail", true), run("blocked", "mail", true), run("blocked", "a b", true),
      run("blocked", "default"), run("blocked", "default"), run("undo_failed", "default"), run("waiting", "mail"),
    ]);
    expect([...unserved]).toEqual([["mail", 2], ["a b", 1]]);
    expect([blocked, undoFailed]).toEqual([2, 1]);
  });
  it("are counted up to a bound, which is said", () => {
    expect([1, 2, 200].map(many)).toEqual(["1 run", "2 runs", "200 or more runs"]);
  });
});
