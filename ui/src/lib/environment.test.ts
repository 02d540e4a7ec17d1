import { expect, it } from "vitest";
import { toneOf } from "./environment";

it("makes production stand out, and nothing that only sounds like it", () => {
  for (const name of ["production", "PROD", "eu live", "prod-2"]) expect(toneOf(name), name).toBe("red");
  for (const name of ["staging", "preprod"]) expect(toneOf(name), name).toBe("amber");
  for (const name of ["test", "products", "delivery", "ann's laptop"]) expect(toneOf(name), name).toBe("grey");
});
