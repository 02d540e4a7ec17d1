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

it("paints the list of runs", async () => {
  const spent: number[] = [];
  for (let time = 0; time < 7; time++) {
    const context = await lab.somebody();
    await context.addInitScript(() => {
      new MutationObserver((_, observer) => {
        if (!document.querySelector("[role=listitem]")) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => ((window as unknown as { painted: number }).painted = performance.now())));
      }).observe(document, { childList: true, subtree: true });
    });
    const page = await lab.page("/runs", "light", context);
    spent.push(await (await page.waitForFunction(() => (window as unknown as { painted?: number }).painted)).evaluate((painted) => painted as number));
    await context.close();
  }
  spent.sort((a, b) => a - b);
  console.log(`from the request for the document to the first rows on the screen: half within ${spent[3]!.toFixed(0)} ms, at most ${spent[6]!.toFixed(0)} ms`);
});
