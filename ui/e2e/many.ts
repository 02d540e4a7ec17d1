// `OUTLAST_MANY=sqlite:///tmp/many.db npm run many`: what lists cost in a database with very many runs, which
// `cargo run --package outlast-testkit --example many_runs` makes. Prints a table for docs/dashboard.md; OUTLAST_BINARY names
// another binary than that of debug builds.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

const TIMES = 20;
/// What the list asks for, as the dashboard writes it.
const ASKED = [
  "/runs?limit=100&since=24h", "/runs?limit=100", "/runs?limit=100&sort=oldest", "/runs?limit=100&status=failed&since=24h", "/runs?limit=100&status=cancelled", "/runs?limit=100&def=mail&since=24h",
  "/runs?limit=100&def=rare", "/runs?limit=100&def=mail&status=failed", "/runs?limit=100&queue=slow", "/runs?limit=100&queue=nothing", "/runs?limit=100&tag=city%3Dcity-7", "/runs?limit=100&q=key-500000",
  "/runs?limit=100&def=order&key=key-500000", "/runs?limit=100&status=running&status=ready", "/runs/count?since=24h", "/runs/count?status=failed", "/runs/count?def=rare", "/runs/count?queue=nothing",
  "/runs/count?q=key-500000", "/stats/summary?range=24h", "/stats/series?range=24h", "/errors?range=24h", "/queues",
];

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.open("api", process.env.OUTLAST_MANY);
});
afterAll(() => lab.close());

it("answers lists of very many runs", async () => {
  const rows: string[] = [];
  for (const path of ASKED) {
    const spent: number[] = [];
    for (let time = 0; time < TIMES && spent.reduce((sum, one) => sum + one, 0) < 20_000; time++) {
      const began = performance.now();
      const answer = await lab.ask(path);
      await answer.text();
      expect(answer.status, path).toBe(200);
      spent.push(performance.now() - began);
    }
    spent.sort((a, b) => a - b);
    const at = (part: number) => `${spent[Math.min(spent.length - 1, Math.floor(part * spent.length))]!.toFixed(0)} ms`;
    rows.push(`| \`${path}\` | ${at(0.5)} | ${at(0.95)} |`);
  }
  console.log(`| asked | half within | 95 % within |\n|---|---:|---:|\n${rows.join("\n")}`);
});

/// How often a page is opened, each time in a browser that has nothing of it.
const VISITS = 9;
it.each([["the list of runs", "/runs", "[role=listitem]"], ["the numbers of the first page", "/", "[data-card]"]])("paints %s", async (what, path, wanted) => {
  const spent: { first: number; again: number }[] = [];
  for (let time = 0; time < VISITS; time++) spent.push(await lab.firstPaint(path, wanted));
  const within = (times: number[]) => {
    times.sort((a, b) => a - b);
    return `half within ${times[Math.floor(times.length / 2)]!.toFixed(0)} ms, ${times[0]!.toFixed(0)} to ${times.at(-1)!.toFixed(0)} ms`;
  };
  console.log(`from the request for the document to ${what} on the screen: ${within(spent.map((one) => one.first))}; in a browser that was there before: ${within(spent.map((one) => one.again))}`);
});
