// End-to-end tests: the real binary and a real browser, two files at a time, each with a database and a browser of its own.
// Every wait ends when what it waits for happens, and not before long: a machine that does other things too makes tests late,
// and late is not wrong. `expect.poll` would give up after a second by itself.
// `npm run shots` takes pictures with the same, and `OUTLAST_MANY=sqlite://… npm run many` measures lists of very many runs.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: [process.env.OUTLAST_MANY !== undefined ? "e2e/many.ts" : process.env.OUTLAST_SHOTS !== undefined ? "e2e/shots.ts" : "e2e/**/*.e2e.ts"],
    testTimeout: 240_000, hookTimeout: 240_000, maxWorkers: 2, expect: { poll: { timeout: 90_000, interval: 50 } },
  },
});
