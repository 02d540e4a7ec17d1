import { expect, it } from "vitest";
import { optionWords } from "./options";

const NOTHING = { attempts: 1, timeout_ms: null, role: null, strict: false, unique_ms: null, retention_ms: null, undo: false, input_schema: null, http_timeout_ms: null };

it("says in words how often a job is tried, and how long it may take", () => {
  expect(optionWords({ ...NOTHING, attempts: 5, timeout_ms: 30_000 }, "job")).toEqual(["5 attempts", "at most 30 s for each attempt"]);
  expect(optionWords({ ...NOTHING, attempts: 1 }, "job")).toEqual(["one attempt"]);
  expect(optionWords({ ...NOTHING, attempts: 5, timeout_ms: 3_600_000 }, "workflow")).toEqual(["at most 1 h from start to end"]);
});

it("leaves away what nobody said, and shows what it does not know as it is", () => {
  expect(optionWords(NOTHING, "workflow")).toEqual([]);
  expect(optionWords(null, "job")).toEqual([]);
  expect(optionWords({ ...NOTHING, colour: "blue", size: null }, "workflow")).toEqual(['colour: "blue"']);
});

it("says what else code has decided", () => {
  const all = { ...NOTHING, role: "payer", strict: true, unique_ms: 0, undo: true, http_timeout_ms: 2000, input_schema: {}, retention_ms: { completed: 86_400_000, failed: null, cancelled: null } };
  expect(optionWords(all, "workflow")).toEqual(["at most 2 s for a call to another service", "one with the same input at a time", "kept 1 d when completed", "for the role payer", "only with the code that it began with", "can be undone", "says what its input looks like"]);
  expect(optionWords({ ...NOTHING, unique_ms: 60_000, retention_ms: { completed: null } }, "workflow")).toEqual(["one with the same input in 1 min", "kept for good"]);
});
