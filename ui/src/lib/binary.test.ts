import { describe, expect, it } from "vitest";
import { bytesIn, bytesOf } from "./binary";

const base64 = (text: string) => Buffer.from(text, "latin1").toString("base64");
const noise = Array.from({ length: 300 }, (_, nth) => String.fromCharCode((nth * 73) % 256)).join("");

describe("a text that is bytes", () => {
  it("is known by its letters, and said to be as large as what it stands for", () => {
    for (const length of [100, 101, 102]) expect(bytesOf(base64(noise.slice(0, length)))).toMatchObject({ size: length });
    expect(bytesOf(Buffer.from(noise.slice(0, 100), "latin1").toString("base64url"))).toMatchObject({ size: 100 });
    expect(bytesIn({ size: 2048 })).toBe("base64, 2 KiB");
  });
  it("is of a kind where its beginning or its address tells", () => {
    expect(bytesOf(base64(`\x89PNG\r\n\x1a\n${noise}`))?.type).toBe("PNG image");
    expect(bytesOf(base64(`%PDF-1.7${noise}`))?.type).toBe("PDF document");
    expect(bytesOf("data:text/plain;charset=utf-8;base64,SGVsbG8=")).toEqual({ type: "text/plain", size: 5 });
    expect(bytesOf(base64(noise))?.type).toBeUndefined();
  });
  it("is not what only might be", () => {
    for (const text of ["x".repeat(200), "a1".repeat(64), "0123456789abcdef".repeat(4), "Hello world, this is a long sentence with 42 words in it, or about as many.", "SGVsbG8=", "run_01m7ny4bfke0085xcspdz1d6e6", ""]) expect(bytesOf(text), text).toBeNull();
    expect(bytesOf("data:text/plain;base64,no letters of base64!")).toBeNull();
  });
});
