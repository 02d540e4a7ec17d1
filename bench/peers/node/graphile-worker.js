// Measures graphile-worker, a job queue: no workflows, so no steps and no events.
//
// Settings, and why:
// - Draining: a local queue of 1,000 jobs with 64 at once, and acknowledgements gathered in
//   batches (`completeJobBatchDelay: 0`). Its documentation names both for throughput; without
//   them every job costs a fetch and an acknowledgement of its own.
// - Bulk enqueue: `addJobs` with 1,000 jobs a call, from two calls at once.
// - Latency: no local queue; jobs are announced by LISTEN/NOTIFY and fetched at once.
// - Timers: a job that becomes due later is found by polling alone, so the poll is every 20 ms
//   instead of every 2 s.

import { Logger, makeWorkerUtils, run as startRunner } from "graphile-worker";
import { Landings, Tally, now, oneByOne, run, sleep } from "./common.js";

/** The first few samples open connections and do not count. */
const WARM_UP = 5;
const landings = new Landings();
const tally = new Tally();
const taskList = {
  job: ({ number }) => {
    tally.add();
    landings.land(number);
  },
};
const quiet = new Logger(() => (level, message) => {
  if (level === "error") process.stderr.write(`${message}\n`);
});

run("graphile-worker", async (bench) => {
  const utils = await makeWorkerUtils({ connectionString: bench.url, maxPoolSize: 20, logger: quiet });
  await utils.migrate();

  if (bench.wants("W1")) await jobs(bench, utils);
  if (bench.wants("W2")) bench.cannot("W2", "", "steps/s", "jobs only: no steps");
  if (bench.wants("W3")) await enqueueToRan(bench, utils);
  if (bench.wants("W4")) bench.cannot("W4", "send to continuation", "ms p50", "jobs only: no events");
  if (bench.wants("W5")) await timers(bench, utils);
});

const start = (bench, preset) =>
  startRunner({
    taskList,
    noHandleSignals: true,
    logger: quiet,
    preset: { worker: { connectionString: bench.url, maxPoolSize: 20, ...preset } },
  });

async function jobs(bench, utils) {
  const batches = bench.pick(100, 20);
  let todo = batches;
  let begin = now();
  const producer = async () => {
    while (todo-- > 0) {
      const batch = Array.from({ length: 1000 }, () => ({ identifier: "job", payload: { number: -1 } }));
      await utils.addJobs(batch);
    }
  };
  await Promise.all([producer(), producer()]);
  const bulk = batches * 1000;
  bench.row("W1", "bulk enqueue", 2, bulk / ((now() - begin) / 1000), "jobs/s", `${bulk} jobs, 1,000 a call`);

  const single = await oneByOne(16, bench.pick(10_000, 2_000), bench.pick(12, 5), () => utils.addJob("job", { number: -1 }));
  bench.row("W1", "enqueue one by one, 16 tasks", 16, single.perSecond, "jobs/s", `${single.done} jobs`);

  const all = bulk + single.done;
  const drained = tally.reach(all, 120);
  begin = now();
  const runner = await start(bench, { concurrentJobs: 64, localQueue: { size: 1000 }, completeJobBatchDelay: 0 });
  await drained;
  // Acknowledgements come after the jobs: it lasts until no job is left.
  const left = "select exists (select from graphile_worker._private_jobs) as any";
  while ((await utils.withPgClient((client) => client.query(left))).rows[0].any) await sleep(10);
  const rate = all / ((now() - begin) / 1000);
  bench.row("W1", "drain", 64, rate, "jobs/s", `${all} jobs; local queue of 1,000, acknowledgements in batches`);
  await runner.stop();
}

async function enqueueToRan(bench, utils) {
  bench.cannot("W3", "workflow", "ms p50", "jobs only: no result to wait for");
  const runner = await start(bench, { concurrentJobs: 4 });
  await sleep(500);
  const samples = [];
  for (let number = 0; number < WARM_UP + bench.pick(500, 100); number++) {
    const landing = landings.expect(number);
    const begin = now();
    await utils.addJob("job", { number });
    const took = (await landing) - begin;
    if (number >= WARM_UP) samples.push(took);
    // Low load: the worker is idle again before the next job.
    await sleep(5);
  }
  bench.latency("W3", "job", 1, samples);
  await runner.stop();
}

async function timers(bench, utils) {
  const count = 2000;
  const due = now() + 6000;
  const landed = Array.from({ length: count }, (_, number) => landings.expect(number, 60));
  const runAt = new Date(due);
  await utils.addJobs(landed.map((_, number) => ({ identifier: "job", payload: { number }, runAt })));
  const runner = await start(bench, {
    concurrentJobs: 64,
    localQueue: { size: 1000 },
    completeJobBatchDelay: 0,
    pollInterval: 20,
  });
  if (now() > due) throw new Error("W5: the timers were due before the last of them was set");
  const late = (await Promise.all(landed)).map((at) => Math.max(0, at - runAt.getTime()));
  bench.latency("W5", "timers due together", count, late, "found by polling every 20 ms");
  await runner.stop();
}
