// Measures pg-boss, a job queue: no workflows, so no steps and no events.
//
// Settings, and why:
// - Draining: `fetch` of 1,000 jobs and one `complete` for all of them, from two loops at once;
//   its workers fetch the same way, and smaller batches drain slower.
// - Bulk enqueue: `insert` with 1,000 jobs a call, from two calls at once.
// - Latency: a queue with `notify`, which wakes the worker by LISTEN/NOTIFY; otherwise a job waits
//   for a poll, which cannot be more often than every half second.
// - Timers: a job that becomes due later is found by polling alone, every half second at best,
//   1,000 at a time and without a pause while batches are full.

import { PgBoss } from "pg-boss";
import { Landings, now, oneByOne, run, sleep } from "./common.js";

/** The first few samples open connections and do not count. */
const WARM_UP = 5;
const landings = new Landings();

run("pg-boss", async (bench) => {
  const boss = new PgBoss({
    connectionString: bench.url,
    max: 20,
    useListenNotify: true,
    supervise: false,
    schedule: false,
  });
  boss.on("error", (error) => process.stderr.write(`${error}\n`));
  await boss.start();

  if (bench.wants("W1")) await jobs(bench, boss);
  if (bench.wants("W2")) bench.cannot("W2", "", "steps/s", "jobs only: no steps");
  if (bench.wants("W3")) await enqueueToRan(bench, boss);
  if (bench.wants("W4")) bench.cannot("W4", "send to continuation", "ms p50", "jobs only: no events");
  if (bench.wants("W5")) await timers(bench, boss);
});

async function jobs(bench, boss) {
  await boss.createQueue("jobs");
  const batches = bench.pick(100, 20);
  let left = batches;
  let begin = now();
  const producer = async () => {
    while (left-- > 0) {
      await boss.insert("jobs", Array.from({ length: 1000 }, () => ({ data: { number: -1 } })));
    }
  };
  await Promise.all([producer(), producer()]);
  const bulk = batches * 1000;
  bench.row("W1", "bulk enqueue", 2, bulk / ((now() - begin) / 1000), "jobs/s", `${bulk} jobs, 1,000 a call`);

  const single = await oneByOne(16, bench.pick(20_000, 4_000), bench.pick(12, 5), () => boss.send("jobs", { number: -1 }));
  bench.row("W1", "enqueue one by one, 16 tasks", 16, single.perSecond, "jobs/s", `${single.done} jobs`);

  const all = bulk + single.done;
  let drained = 0;
  begin = now();
  const worker = async () => {
    for (;;) {
      const batch = await boss.fetch("jobs", { batchSize: 1000 });
      if (batch.length === 0) return;
      await boss.complete("jobs", batch.map((job) => job.id));
      drained += batch.length;
    }
  };
  await Promise.all([worker(), worker()]);
  const rate = drained / ((now() - begin) / 1000);
  if (drained < all) throw new Error(`only ${drained} of ${all} jobs were drained`);
  bench.row("W1", "drain", 2, rate, "jobs/s", `${all} jobs, fetched 1,000 at a time`);
}

async function enqueueToRan(bench, boss) {
  bench.cannot("W3", "workflow", "ms p50", "jobs only: no result to wait for");
  await boss.createQueue("notified", { notify: true });
  const worker = await boss.work("notified", { batchSize: 1, pollingIntervalSeconds: 0.5 }, async ([job]) => {
    landings.land(job.data.number);
  });
  await sleep(500);
  const samples = [];
  for (let number = 0; number < WARM_UP + bench.pick(500, 100); number++) {
    const landing = landings.expect(number);
    const begin = now();
    await boss.send("notified", { number });
    const took = (await landing) - begin;
    if (number >= WARM_UP) samples.push(took);
    // Low load: the worker is idle again before the next job.
    await sleep(10);
  }
  bench.latency("W3", "job", 1, samples, "woken by LISTEN/NOTIFY");
  await boss.offWork("notified", { id: worker, wait: false });
}

async function timers(bench, boss) {
  const count = 2000;
  await boss.createQueue("timers");
  const due = now() + 6000;
  const landed = Array.from({ length: count }, (_, number) => landings.expect(number, 60));
  const startAfter = new Date(due);
  const batch = landed.map((_, number) => ({ data: { number }, startAfter }));
  await boss.insert("timers", batch);
  if (now() > due) throw new Error("W5: the timers were due before the last of them was set");
  const options = { batchSize: 1000, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
  await boss.work("timers", options, async (fetched) => {
    for (const job of fetched) landings.land(job.data.number);
  });
  const late = (await Promise.all(landed)).map((at) => Math.max(0, at - startAfter.getTime()));
  bench.latency("W5", "timers due together", count, late, "found by polling every 500 ms, its shortest");
}
