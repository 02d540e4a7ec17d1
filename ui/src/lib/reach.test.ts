import { expect, it } from "vitest";
import { boundTo, reaches, type Thing } from "./reach";

const THINGS: Thing[] = ["errors", "schedules", "bulk", "queues", "nodes", "system"];

it("keeps what would be refused from whoever is bound, and nothing from others", () => {
  const seen = (tenant: string | null, queues: string[] | null) => THINGS.filter((thing) => reaches({ tenant, queues }, thing));
  expect(seen(null, null)).toEqual(THINGS);
  expect(seen("acme", null)).toEqual(["errors", "schedules", "bulk"]);
  expect(seen(null, ["mail"])).toEqual(["queues"]);
  expect(seen("acme", ["mail"])).toEqual([]);
  // The tenant without a name is one too.
  expect(reaches({ tenant: "" }, "nodes")).toBe(false);
});

it("says what somebody is bound to", () => {
  expect(boundTo({})).toBe("");
  expect(boundTo({ tenant: "acme", queues: null })).toBe("tenant acme");
  expect(boundTo({ tenant: null, queues: ["mail"] })).toBe("queue mail");
  expect(boundTo({ tenant: "acme", queues: ["mail", "sms"] })).toBe("tenant acme, queues mail, sms");
});
