import { expect, it } from "vitest";
import { bytes, sizeOf } from "./size";

it("says how much room something takes in few digits", () => {
  expect([0, 999, 1000, 8192, 123_456, 999_600, 4_200_000, 7_500_000_000, 2e15].map(bytes)).toEqual(["0 B", "999 B", "1.0 kB", "8.2 kB", "123 kB", "1.0 MB", "4.2 MB", "7.5 GB", "2000 TB"]);
});

it("counts bytes, and not letters", () => {
  expect([sizeOf(""), sizeOf("ab"), sizeOf("ü"), sizeOf("€"), sizeOf("🛶")]).toEqual([0, 2, 2, 3, 4]);
});
