// Stable names, no hashes, no source maps: the build is committed, and git keeps differences small.
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  base: "./",
  // Pages are written for React, and drawn by Preact: a browser that has never been here waits for what it has to load and compile.
  resolve: {
    alias: [
      { find: /^react-dom\/(client|server)$/, replacement: "preact/compat/$1" },
      { find: /^react(-dom)?$/, replacement: "preact/compat" },
      { find: /^react\/jsx-(dev-)?runtime$/, replacement: "preact/jsx-runtime" },
    ],
  },
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
        // What the first page needs is one file: each further one is asked for by itself, over one of six connections.
        codeSplitting: { groups: [{ name: "first", tags: ["$initial"] }] },
      },
    },
  },
  test: { include: ["src/**/*.test.ts"] },
  server: { proxy: { "/api": "http://127.0.0.1:7777", "/version": "http://127.0.0.1:7777" } },
});
