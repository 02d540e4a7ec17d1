// Stable names, no hashes, no source maps: the build is committed, and git keeps differences small.
import { readFileSync } from "node:fs";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The dashboard is in the same binary as the API: what that has not, it does not ask for.
const { paths } = JSON.parse(readFileSync(new URL("../api/openapi.json", import.meta.url), "utf8")) as { paths: Record<string, unknown> };

export default defineConfig({
  plugins: [react()],
  define: { __HAS_SESSIONS__: "/api/v1/session" in paths, __HAS_CHECKS__: "/api/v1/system/checks" in paths },
  base: "./",
  build: {
    outDir: "../crates/server/dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: { app: "index.html" },
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  test: { include: ["src/**/*.test.ts"] },
  server: { proxy: { "/api": "http://127.0.0.1:7777", "/version": "http://127.0.0.1:7777" } },
});
