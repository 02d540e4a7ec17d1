// What the Node peers share: the command line, the rows, and the ways to measure. The same
// questions as in ../common, asked in the language of these peers.

import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";

const WORKLOADS = ["W1", "W2", "W3", "W4", "W5"];
const USAGE = "usage: --database-url URL [--workloads W1,W2,W3,W4,W5] [--runs N] [--quick]";

/** Runs a peer program to its end: a failure, a hang and a signal all end it with a message. */
export async function run(name, measure) {
  let bench;
  try {
    bench = new Bench(name, process.argv.slice(2));
  } catch (error) {
    end(2, error.message);
  }
  const limit = bench.quick ? 180 : 900;
  setTimeout(() => end(3, `not done after ${limit} s`), limit * 1000).unref();
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => end(130, "interrupted"));
  process.on("unhandledRejection", (error) => end(1, String(error?.stack ?? error)));
  try {
    await measure(bench);
  } catch (error) {
    end(1, String(error?.stack ?? error));
  }
  // Pools and listeners may keep the process alive, and the figures are out.
  end(0);
}

function end(code, message) {
  if (message) process.stderr.write(`${message}\n`);
  // Rows still on their way down a pipe get there first.
  process.stdout.write("", () => process.exit(code));
}

/** What was asked for, and where the rows go. */
export class Bench {
  constructor(name, args) {
    this.workloads = WORKLOADS;
    this.quick = false;
    for (let at = 0; at < args.length; at++) {
      const value = () => {
        if (at + 1 >= args.length) throw new Error(`${args[at]} needs a value`);
        return args[++at];
      };
      switch (args[at]) {
        case "--database-url":
          this.url = value();
          break;
        case "--workloads":
          this.workloads = value().split(",").map((workload) => workload.trim());
          break;
        case "--runs":
          value(); // These peers have no runs of steps, and jobs are counted by the program.
          break;
        case "--quick":
          this.quick = true;
          break;
        default:
          throw new Error(`unknown argument ${args[at]}; ${USAGE}`);
      }
    }
    const unknown = this.workloads.find((workload) => !WORKLOADS.includes(workload));
    if (unknown) throw new Error(`unknown workload ${unknown}; there are ${WORKLOADS.join(", ")}`);
    if (!this.url) throw new Error(`--database-url is missing; ${USAGE}`);
    if (!/^postgres(ql)?:/.test(this.url)) throw new Error(`${name} runs on PostgreSQL only`);
    const manifest = new URL(`./node_modules/${name}/package.json`, import.meta.url);
    this.peer = `${name} ${JSON.parse(readFileSync(manifest, "utf8")).version}`;
  }

  wants(workload) {
    return this.workloads.includes(workload);
  }

  pick(full, quick) {
    return this.quick ? quick : full;
  }

  /** A row with a figure. */
  row(workload, variant, concurrency, value, unit, note = "") {
    const rounded = value === null ? null : Math.round(value * 1000) / 1000;
    const row = { workload, store: "postgres", concurrency, value: rounded, unit, peer: this.peer, variant, note };
    process.stdout.write(`${JSON.stringify(row)}\n`);
  }

  /** A row that says what the peer cannot do. */
  cannot(workload, variant, unit, why) {
    this.row(workload, variant, null, null, unit, why);
  }

  /** Two rows: half of the samples were faster than the first, all but a hundredth than the second. */
  latency(workload, variant, concurrency, samples, note = "") {
    if (samples.length === 0) throw new Error(`${workload} ${variant}: no sample was taken`);
    const sorted = [...samples].sort((a, b) => a - b);
    const at = (part) => sorted[Math.round((sorted.length - 1) * part)];
    const said = note ? `${samples.length} samples; ${note}` : `${samples.length} samples`;
    this.row(workload, variant, concurrency, at(0.5), "ms p50", said);
    this.row(workload, variant, concurrency, at(0.99), "ms p99", said);
  }
}

/** Now, in milliseconds since the epoch, finer than Date.now(). */
export const now = () => performance.timeOrigin + performance.now();

/** Enqueues from `tasks` tasks, one job a call, until `most` are in or `seconds` are over. */
export async function oneByOne(tasks, most, seconds, enqueue) {
  const begin = now();
  let next = 0;
  let done = 0;
  const task = async () => {
    while (next < most && now() - begin < seconds * 1000) {
      await enqueue(next++);
      done++;
    }
  };
  await Promise.all(Array.from({ length: tasks }, task));
  return { done, perSecond: done / ((now() - begin) / 1000) };
}

/** Where jobs say that they ran; both ends are in one process, so that one clock judges both. */
export class Landings {
  #waiting = new Map();

  /** The time at which `number` lands. */
  expect(number, seconds = 30) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`job ${number} did not land within ${seconds} s`)), seconds * 1000);
      this.#waiting.set(number, (at) => {
        clearTimeout(timer);
        resolve(at);
      });
    });
  }

  land(number) {
    this.#waiting.get(number)?.(now());
    this.#waiting.delete(number);
  }
}

/** Counts jobs and tells when there are enough. */
export class Tally {
  count = 0;
  #wanted = Infinity;
  #reached = () => {};

  add(more = 1) {
    this.count += more;
    if (this.count >= this.#wanted) this.#reached();
  }

  reach(wanted, seconds) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${this.count} of ${wanted} ran after ${seconds} s`)), seconds * 1000);
      this.#wanted = wanted;
      this.#reached = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.count >= wanted) this.#reached();
    });
  }
}

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
