import { expect, it } from "vitest";
import { bytes } from "./size";

it("says how much room something takes in few digits", () => {
  expect([0, 999, 1024, 8192, 123_456, 1_023_900, 4_200_000, 7_500_000_000, 2e16].map(bytes)).toEqual(["0 B", "999 B", "1.0 KiB", "8.0 KiB", "121 KiB", "1.0 MiB", "4.0 MiB", "7.0 GiB", "18190 TiB"]);
});
