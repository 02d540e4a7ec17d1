import { describe, expect, it } from "vitest";
import { did, holder } from "./asked";

const at = (minute: number, second = 0) => `2027-01-01T00:${String(minute).padStart(2, "0")}:${String(second).padStart(2, "0")}.000000Z`;
const line = (action: string, minute: number, actor = "ann", status = 200, second = 0) => ({ at: at(minute, second), actor, action, reason: `${actor} at ${minute}`, status });
const OTHERS = ["queue.resume", "queue.drain"];

describe("who holds a queue back", () => {
  const paused = (lines: ReturnType<typeof line>[], since?: string) => holder(lines, "queue.pause", OTHERS, since)?.reason;
  it("is whoever paused it last, and not who was refused to let it go on or changed something else", () => {
    expect(paused([line("queue.resume", 9, "eve", 403), line("queue.limit", 8, "bob"), line("queue.pause", 7), line("queue.resume", 6), line("queue.pause", 5, "bob")], at(7))).toBe("ann at 7");
  });
  it("is the first of those who paused what was paused already", () => {
    const lines = [line("queue.pause", 8, "bob"), line("queue.pause", 7, "ann"), line("queue.resume", 6)];
    expect(paused(lines)).toBe("ann at 7");
    expect(paused(lines, at(7))).toBe("ann at 7");
  });
  it("is nobody where it goes on again, or where code did it and people only asked for the same before or later", () => {
    expect(paused([line("queue.resume", 8), line("queue.pause", 7)])).toBeUndefined();
    expect(paused([line("queue.drain", 8), line("queue.pause", 7)])).toBeUndefined();
    expect(paused([line("queue.pause", 5)], at(7))).toBeUndefined();
    expect(paused([line("queue.pause", 30)], at(7))).toBeUndefined();
    expect(paused([], at(7))).toBeUndefined();
  });
});

it("says in words what somebody did, or was refused to do", () => {
  expect(did(line("schedule.trigger", 1))).toBe("started a run of it");
  expect(did(line("queue.pause", 1, "eve", 403))).toBe("was refused: pause");
  expect(did(line("queue.new_thing", 1))).toBe("new thing");
});
