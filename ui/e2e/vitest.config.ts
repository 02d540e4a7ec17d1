// End-to-end tests: the real binary and a real browser, one file after the other. `npm run shots` takes pictures with the same.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: [process.env.OUTLAST_SHOTS !== undefined ? "e2e/shots.ts" : "e2e/**/*.e2e.ts"], testTimeout: 60_000, hookTimeout: 60_000, fileParallelism: false },
});
