import { expect, it } from "vitest";
import { changes } from "./changes";

it("sends what has another text, and nothing else", () => {
  const before = { expression: "@daily", zone: "UTC", input: "null" };
  expect(changes(before, { ...before })).toEqual({});
  expect(changes(before, { ...before, expression: "@hourly" })).toEqual({ expression: "@hourly" });
  // What was emptied was changed.
  expect(changes(before, { ...before, zone: "", input: '"x"' })).toEqual({ zone: "", input: '"x"' });
});
