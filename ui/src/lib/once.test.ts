import { expect, it } from "vitest";
import { keyOf, newAct } from "./once";

it("gives the same words of one act the same key, and everything else another", () => {
  const [act, other] = [newAct(), newAct()];
  const key = keyOf(act, "POST", "/api/v1/runs", '{"input":1}');
  expect(keyOf(act, "POST", "/api/v1/runs", '{"input":1}')).toBe(key);
  const others = [keyOf(other, "POST", "/api/v1/runs", '{"input":1}'), keyOf(act, "POST", "/api/v1/runs", '{"input":2}'), keyOf(act, "POST", "/api/v1/bulk", '{"input":1}')];
  expect(new Set([key, ...others]).size).toBe(4);
  const many = Array.from({ length: 20_000 }, (_, nth) => keyOf(act, "POST", "/", `{"input":${nth}}`));
  expect(new Set(many).size).toBe(many.length);
});

it("makes keys that a server takes: at most 200 letters that can be seen", () => {
  expect(keyOf(newAct(), "POST", "/runs/Grüße%2F1", "{\"größe\":\"\u0000\"}".repeat(10_000))).toMatch(/^[\x21-\x7e]{1,200}$/);
});
