import { describe, expect, it, vi } from "vitest";
import { ApiError, type Schemas } from "../api/client";
import { parse } from "./json";
import { hasFields, hasRules, unlessDone } from "./meanwhile";

// Before what asks for the API is loaded.
vi.hoisted(() => void Object.assign(globalThis, { location: { href: "http://here/" }, document: { getElementById: () => null } }));

const changed = new ApiError(412, "precondition_failed", "It was changed meanwhile.");
const refused = async () => Promise.reject(changed);
const stands = async () => "as asked";

describe("a change that was made meanwhile", () => {
  it("is done, where it is the one that was asked for", async () => {
    await unlessDone(refused, stands, (now) => now === "as asked");
  });
  it("is somebody else's, where it is another, or nobody knows", async () => {
    await expect(unlessDone(refused, stands, () => false)).rejects.toBe(changed);
    await expect(unlessDone(refused, async () => Promise.reject(new Error("away")), () => true)).rejects.toBe(changed);
  });
  it("is not looked for where it was sent, or could not be sent for another reason", async () => {
    const look = vi.fn(stands);
    await unlessDone(stands, look, () => false);
    const away = new ApiError(0, "unreachable", "The server cannot be reached.");
    await expect(unlessDone(async () => Promise.reject(away), look, () => true)).rejects.toBe(away);
    expect(look).not.toHaveBeenCalled();
  });
});

describe("what stands as it was asked", () => {
  it("are all rules of a queue", () => {
    const rules = { limit: 3, per_node: null, per_group: undefined, rate: { count: 30, per_ms: 60_000 }, fair: false, ordered: false };
    const asked = { limit: 3, rate: { per_ms: 60_000, count: 30 }, fair: false, ordered: false };
    expect(hasRules({ own_rules: true, rules }, asked)).toBe(true);
    expect(hasRules({ own_rules: false, rules }, asked)).toBe(false);
    for (const other of [{ ...asked, limit: undefined }, { ...asked, per_node: 1 }, { ...asked, rate: { count: 30, per_ms: 1 } }, { ...asked, fair: true }]) expect(hasRules({ own_rules: true, rules }, other)).toBe(false);
  });
  it("are those fields of a schedule that were changed, digit by digit", () => {
    const schedule = { expression: "@daily", zone: "UTC", input: parse('{"of":12345678901234567890}') } as Schemas["Schedule"];
    expect(hasFields(schedule, { expression: "@daily" })).toBe(true);
    expect(hasFields(schedule, { expression: "@daily", input: parse('{"of":12345678901234567890}') })).toBe(true);
    expect(hasFields(schedule, { input: parse('{"of":12345678901234567891}') })).toBe(false);
    expect(hasFields(schedule, { expression: "@hourly" })).toBe(false);
  });
});
