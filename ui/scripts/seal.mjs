// Writes dist/.source-hash: from which sources the committed build was made. The Rust test `dist_is_fresh` computes the
// same without node, so both have to agree on every byte: "path sha256\n" for each file, sorted by path.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const files = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
const walk = (folder) => {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) walk(path);
    else files.push(path);
  }
};
["src", "public", "scripts"].forEach(walk);

const sha = (data) => createHash("sha256").update(data).digest("hex");
const order = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));
const lines = files.sort(order).map((path) => `${path} ${sha(readFileSync(join(root, path)))}\n`);
writeFileSync(join(root, "../crates/server/dist/.source-hash"), sha(lines.join("")) + "\n");
