import { describe, expect, it, vi } from "vitest";

vi.mock("../api/client", () => ({ api: {}, data: (answer: unknown) => answer }));
const { many, standing } = await import("./stopped");

describe("runs that stand still", () => {
  const run = (status: string, queue: string, reason: string | null) => ({ status, queue, reason });
  it("are told apart by what they lack", () => {
    const { unserved, blocked, undoFailed } = standing([
      run("blocked", "mail", "no node that knows ship@2 serves queue mail"), run("blocked", "mail", "no node that knows greet@1 serves queue mail"),
      run("blocked", "a b", "no node that knows greet@1 serves queue a b"),
      run("blocked", "default", "the journal does not fit"), run("blocked", "default", "no node knows ship@2, only ship@1"), run("undo_failed", "default", "no"), run("waiting", "mail", null),
    ]);
    expect([...unserved]).toEqual([["mail", 2], ["a b", 1]]);
    expect([blocked, undoFailed]).toEqual([2, 1]);
  });
  it("are counted up to a bound, which is said", () => {
    expect([1, 2, 200].map(many)).toEqual(["1 run", "2 runs", "200 or more runs"]);
  });
});
