import { expect, it } from "vitest";
import { hintsOf } from "./hints";

const known = {
  nodes: [{ id: "node_1", name: "api", host: "a" }],
  definitions: [{ name: "order", version: 2 }, { name: "order", version: 1 }, { name: "mail", version: 3 }, { name: "mail", version: 1 }],
};

it("offers nodes under the names that people know", () => {
  expect(hintsOf("node", known)).toEqual([{ value: "node_1", label: "api on a" }]);
});

it("offers the versions of the definition that is asked for, or of all", () => {
  const versions = (def?: string) => hintsOf("version", { ...known, def }).map((hint) => hint.value);
  expect(versions()).toEqual(["3", "2", "1"]);
  expect(versions("order")).toEqual(["2", "1"]);
});

it("offers examples of times, and nothing for what only people know", () => {
  expect(hintsOf("stuck", known).map((hint) => hint.value)).toContain("5m");
  expect(hintsOf("ended", known).map((hint) => hint.value)).toContain("24h");
  expect(hintsOf("owner", known)).toEqual([]);
});
