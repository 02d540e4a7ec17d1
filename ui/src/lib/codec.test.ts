import { describe, expect, it, vi } from "vitest";

vi.stubGlobal("document", { getElementById: () => null });
vi.stubGlobal("location", { href: "http://127.0.0.1/" });
const { decode, wrong } = await import("./codec");

describe("a decoder of payloads", () => {
  it("is below the origin that the server names, and nowhere else", () => {
    const allowed = "https://codec.example.com";
    expect(wrong("https://codec.example.com/decode", allowed)).toBeNull();
    for (const url of ["https://other.example.com/decode", "http://codec.example.com/decode", "https://codec.example.com:444/", "https://codec.example.com.evil.org/", "https://codec.example.com@evil.org/", "javascript:alert(1)", "decode", ""]) {
      expect(wrong(url, allowed), url).not.toBeNull();
      expect(wrong(url, null), url).not.toBeNull();
    }
    expect(wrong("https://codec.example.com/decode", null)).not.toBeNull();
  });
  it("gets the payload alone, and what it answers loses no digit", async () => {
    const asked = vi.fn(async (_url: unknown, _options: RequestInit) => new Response('{"iban":"DE89","cents":9007199254740993}'));
    const found = (await decode({ url: "https://codec.example.com/decode", cookies: false }, '"x1Ff"', asked as never)) as { cents: unknown };
    expect(String(found.cents)).toBe("9007199254740993");
    expect(asked.mock.calls[0]).toMatchObject(["https://codec.example.com/decode", { body: '"x1Ff"', credentials: "omit", referrerPolicy: "no-referrer", redirect: "error" }]);
  });
  it("says what is wrong with it", async () => {
    const one = { url: "https://codec.example.com/decode", cookies: true };
    await expect(decode(one, "1", (async () => new Response("no", { status: 403 })) as never)).rejects.toThrow("answered 403");
    await expect(decode(one, "1", (async () => new Response("<html>")) as never)).rejects.toThrow("no JSON");
    await expect(decode(one, "1", (async () => Promise.reject(new TypeError("CORS"))) as never)).rejects.toThrow("cannot be reached");
  });
});
