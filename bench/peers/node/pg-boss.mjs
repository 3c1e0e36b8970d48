// pg-boss with large batches, several fetch loops that go on while batches are full, and notification.
import { PgBoss } from "pg-boss";
import { drained, main, moments, offered, pieces, produced, starts, tally, timed } from "./measure.mjs";

const busy = (batchSize) => ({
  batchSize,
  localConcurrency: 4,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
});

async function withBoss(url, use, options = {}) {
  const boss = new PgBoss({ connectionString: url, ...options });
  boss.on("error", (error) => process.stderr.write(`${error}\n`));
  await boss.start();
  try {
    return await use(boss);
  } finally {
    await boss.stop({ graceful: false, close: true });
  }
}

await main({
  // Only the latency queue notifies: a notification per insert is of no use to the others.
  prepare: async (url) =>
    withBoss(url, async (boss) => {
      await boss.createQueue("noop");
      await boss.createQueue("prompt", { notify: true });
    }),

  enqueue_singly: async (url, count) =>
    withBoss(
      url,
      async (boss) => ({
        seconds: await timed(async () => {
          for (let n = 0; n < count; n++) await boss.send("noop", { n });
        }),
      }),
      { max: 1, supervise: false, schedule: false },
    ),

  enqueue_bulk: async (url, count) =>
    withBoss(
      url,
      async (boss) => ({
        seconds: await timed(async () => {
          for (const payloads of pieces(count)) {
            await boss.insert("noop", payloads.map((data) => ({ data })));
          }
        }),
      }),
      { max: 1, supervise: false, schedule: false },
    ),

  drain: async (url, count, { unfinished, batch }) =>
    withBoss(url, async (boss) => {
      const done = tally(count);
      await boss.work("noop", busy(batch), async (jobs) => done.add(jobs.length));
      return { seconds: await drained(url, done, unfinished), runs: done.runs };
    }),

  work: async (url, count) =>
    withBoss(
      url,
      async (boss) => {
        const starts = moments(count);
        await boss.work("prompt", { pollingIntervalSeconds: 0.5 }, async ([job]) => starts.note(job.data.n));
        return await starts.wait();
      },
      { useListenNotify: true },
    ),

  produce: async (url, count) =>
    withBoss(url, (boss) => produced(count, (data) => boss.send("prompt", data)), { supervise: false, schedule: false }),

  serve: async (url, _count, { batch }) =>
    withBoss(
      url,
      async (boss) => {
        const reports = starts();
        await boss.work("prompt", busy(batch), async (jobs) => jobs.forEach((job) => reports.note(job.data.n)));
        await reports.ended;
      },
      { useListenNotify: true },
    ),

  offer: async (url, rate, { seconds }) =>
    withBoss(
      url,
      (boss) => offered(rate, seconds, (payloads) => boss.insert("prompt", payloads.map((data) => ({ data })))),
      { max: 1, supervise: false, schedule: false },
    ),
});
