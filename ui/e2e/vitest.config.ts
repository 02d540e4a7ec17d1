// End-to-end tests: the real binary and a real browser, two files at a time, each with a database and a browser of its own.
// A test that a busy machine made too late is tried once more, and said to have been.
// `npm run shots` takes pictures with the same.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: [process.env.OUTLAST_SHOTS !== undefined ? "e2e/shots.ts" : "e2e/**/*.e2e.ts"], testTimeout: 60_000, hookTimeout: 60_000, maxWorkers: 2, retry: 1 },
});
