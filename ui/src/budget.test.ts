// What the build may weigh. Whoever breaks this looks for what they brought in, before they raise it.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";

const DIST = fileURLToPath(new URL("../../crates/server/dist", import.meta.url));
const files = readdirSync(DIST, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));

/// The script of the document and everything that it cannot begin without.
function first(): string[] {
  const found = new Set<string>();
  const follow = (name: string) => {
    if (found.has(name)) return;
    found.add(name);
    const text = readFileSync(join(DIST, "assets", name), "utf8");
    // `import("…")` comes later; `import … from "…"` and `import "…"` come first.
    for (const [, other] of text.matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g)) follow(other!);
  };
  const document = readFileSync(join(DIST, "index.html"), "utf8");
  for (const [, name] of document.matchAll(/assets\/([^"?]+\.js)/g)) follow(name!);
  return [...found];
}

describe("the build", () => {
  it("needs at most 200 kB of compressed script for the first page", () => {
    const names = first();
    expect(names).toContain("app.js");
    const bytes = names.reduce((sum, name) => sum + gzipSync(readFileSync(join(DIST, "assets", name))).length, 0);
    expect(bytes).toBeGreaterThan(30_000);
    expect(bytes).toBeLessThanOrEqual(200_000);
  });
  it("has everything for the first page in one file, of at most 100 kB, so that a browser without it waits once", () => {
    expect(first()).toEqual(["app.js"]);
    expect(gzipSync(readFileSync(join(DIST, "assets", "app.js"))).length).toBeLessThanOrEqual(100_000);
  });
  it("is at most 1 MB altogether", () => {
    expect(files.reduce((sum, file) => sum + readFileSync(file).length, 0)).toBeLessThanOrEqual(1_000_000);
  });
  it("has no source maps, and no code in the document", () => {
    expect(files.filter((file) => file.endsWith(".map"))).toEqual([]);
    const scripts = [...readFileSync(join(DIST, "index.html"), "utf8").matchAll(/<script([^>]*)>([^<]*)</g)];
    for (const [, attributes, code] of scripts) expect(code!.trim() === "" || attributes!.includes("application/json")).toBe(true);
  });
});
