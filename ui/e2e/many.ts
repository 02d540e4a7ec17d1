// `OUTLAST_MANY=sqlite:///tmp/many.db npm run many`: what lists cost in a database with very many runs, which
// `cargo run --package outlast-testkit --example many_runs` makes. Prints a table for docs/dashboard.md; OUTLAST_BINARY names
// another binary than that of debug builds.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Lab } from "./lab";

const TIMES = 20;
/// What is wanted, in milliseconds, of a machine that does nothing else: 95 of 100 requests for a list are answered within this, and the list
/// stands within that in half of all browsers that run and have nothing of ours.
const ANSWERED = 500;
const PAINTED = 300;
/// Whether it is what a list asks for, with how many there are, and no sum.
const isList = (path: string) => /^\/(runs|errors|queues)\b/.test(path);
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
  const [rows, late]: [string[], string[]] = [[], []];
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
    const at = (part: number) => spent[Math.min(spent.length - 1, Math.floor(part * spent.length))]!;
    rows.push(`| \`${path}\` | ${at(0.5).toFixed(0)} ms | ${at(0.95).toFixed(0)} ms |`);
    if (isList(path) && at(0.95) > ANSWERED) late.push(`${path}: ${at(0.95).toFixed(0)} ms`);
  }
  console.log(`| asked | half within | 95 % within |\n|---|---:|---:|\n${rows.join("\n")}`);
  // After the whole table: whoever misses one wants to see the others.
  expect(late, `lists that took longer than ${ANSWERED} ms`).toEqual([]);
});

/// How often a page is opened.
const VISITS = 9;
it.each([["the list of runs", "/runs", "[role=listitem]"], ["the numbers of the first page", "/", "[data-card]"]])("paints %s", async (what, path, wanted) => {
  const spent: { started: number; empty: number; again: number }[] = [];
  for (let time = 0; time < VISITS; time++) spent.push(await lab.firstPaint(path, wanted));
  const half = (times: number[]) => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!;
  const within = (times: number[]) => {
    times.sort((a, b) => a - b);
    return `half within ${half(times).toFixed(0)} ms, ${times[0]!.toFixed(0)} to ${times.at(-1)!.toFixed(0)} ms`;
  };
  console.log(`from the request for the document to ${what} on the screen:`);
  console.log(`  in a browser that runs and has nothing of ours: ${within(spent.map((one) => one.empty))}`);
  console.log(`  in one that was here before: ${within(spent.map((one) => one.again))}`);
  console.log(`  in one that was started for it: ${within(spent.map((one) => one.started))}`);
  if (path === "/runs") expect(half(spent.map((one) => one.empty)), what).toBeLessThanOrEqual(PAINTED);
});
