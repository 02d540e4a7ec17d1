import { describe, expect, it } from "vitest";
import { add, asked, bulkWords, fromSearch, GROUPS, isWindowed, read, saidLike, STATUSES, toSearch, words } from "./filter";

const texts = [
  "status:failed def:order",
  "status:failed status:cancelled queue:mail key:a/b.c tag:city=Bern tag:size=large since:24h",
  'key:"two words" tag:"who=a \\"b\\" \\\\c"',
  "run_01m7j3wzpse008vs7k5tgvk5p8",
  "def:über",
  "def:order node:node_1 version:2 owner:ann stuck:5m",
  "status:failed ended:24h",
  'q:"a:b"',
  "",
];

describe("filters", () => {
  it("round-trip through words", () => {
    for (const text of texts) expect(read(words(read(text))), text).toEqual(read(text));
  });
  it("round-trip through the address", () => {
    for (const text of texts) {
      const terms = add([], read(text));
      const search = toSearch(terms);
      expect(fromSearch(search), text).toEqual(terms);
      expect(toSearch(fromSearch(search))).toEqual(search);
    }
  });
  it("take commas in status, and words of no field as an id or a key", () => {
    expect(read("status:failed,cancelled x:y")).toEqual([
      { field: "status", value: "failed" }, { field: "status", value: "cancelled" }, { field: "q", value: "x:y" },
    ]);
  });
  it("replace what can be there once, and hold the same thing once", () => {
    const terms = add(read("def:a status:failed"), read("def:b status:failed status:paused"));
    expect(words(terms)).toBe("status:failed status:paused def:b");
  });
  it("leave away what no address should say", () => {
    expect(fromSearch({ def: ["a", "b"], colour: "red", status: "failed", queue: "", since: 5 })).toEqual([
      { field: "status", value: "failed" }, { field: "def", value: "a" }, { field: "since", value: "5" },
    ]);
  });
  it("become a bulk's words, or nothing where those cannot say it", () => {
    expect(bulkWords(read("status:failed k1"))).toBe("status:failed key:k1");
    expect(bulkWords(read('queue:"night shift" key:"a \\"b\\""'))).toBe('queue:"night shift" key:"a \\"b\\""');
    expect(bulkWords(read("run_01m7j3wzpse008vs7k5tgvk5p8"))).toBeNull();
    expect(bulkWords(read("status:failed failure:4e1c"))).toBe("status:failed");
  });
  it("look at the last day alone, unless something else bounds them", () => {
    for (const open of ["", "status:failed", "def:order", "status:waiting,failed", "tag:a=b", "version:2", "owner:ann"]) expect(isWindowed(read(open)), open).toBe(true);
    for (const bound of ["status:waiting,paused", "key:a", "x", "since:7d", "until:1h", "parent:run_1", "node:node_1", "stuck:5m", "since:all", "status:failed ended:24h"]) expect(isWindowed(read(bound)), bound).toBe(false);
    expect(words(asked(read("status:failed ended:1h")))).toBe("status:failed ended:1h");
    expect(words(asked(read("def:order")))).toBe("def:order since:24h");
    expect(words(asked(read("def:order since:all")))).toBe("def:order");
    expect(words(asked(read("since:2h")))).toBe("since:2h");
  });
});

it("knows the words that the page has for states, typed and in an address", () => {
  expect(read("status:queued")).toEqual([{ field: "status", value: "ready" }]);
  expect(read("status:done,failed").map((term) => term.value)).toEqual(["completed", "cancelled", "failed"]);
  expect(fromSearch({ status: ["retrying", "blocked"] }).map((term) => term.value)).toEqual(["ready", "waiting", "blocked"]);
});

it("has each status in one group, but for those that need somebody", () => {
  const grouped: string[] = Object.values(GROUPS).flat();
  expect(new Set(grouped).size).toBe(grouped.length);
  expect(STATUSES.filter((status) => !grouped.includes(status))).toEqual(["blocked", "undo_failed"]);
  expect(read("status:active").map((term) => term.value)).toEqual(["ready", "running", "undoing"]);
  // The store has a status of that name, and whoever names it means it.
  expect(read("status:waiting").map((term) => term.value)).toEqual(["waiting"]);
});

it("knows what people say of states that the store calls otherwise, from its first letters", () => {
  expect(saidLike("")).toEqual(["queued", "scheduled", "retrying", "active", "done"]);
  expect(saidLike("re")).toEqual(["retrying"]);
  for (const word of saidLike("")) expect(fromSearch({ status: word }).every((term) => STATUSES.some((status) => status === term.value)), word).toBe(true);
});
