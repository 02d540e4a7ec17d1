import { expect, it } from "vitest";
import { backlog } from "./backlog";

const now = Date.parse("2027-03-14T12:00:00Z");

it("is there only once nodes had time to delete", () => {
  expect(backlog(null, now)).toBeNull();
  expect(backlog("2027-03-14T13:00:00Z", now)).toBeNull();
  expect(backlog("2027-03-14T11:55:00Z", now)).toBeNull();
  expect(backlog("2027-03-14T09:00:00Z", now)).toBe(3 * 3_600_000);
});
