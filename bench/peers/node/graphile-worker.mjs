// graphile-worker as its performance page sets it up, but for the local queue: the page shows 500, the caller decides here.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { drained, main, moments, offered, pieces, produced, starts, tally, timed } from "./measure.mjs";

const quiet = new Logger(() => () => {});
const options = (connectionString, worker) => ({
  preset: { worker: { connectionString, logger: quiet, ...worker } },
  noHandleSignals: true,
  parsedCronItems: [],
});
const busy = (batch) => ({
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: batch },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
});

async function withUtils(url, use) {
  const utils = await makeWorkerUtils(options(url, { maxPoolSize: 1 }));
  try {
    return await use(utils);
  } finally {
    await utils.release();
  }
}

await main({
  prepare: async (url) => {
    await runMigrations(options(url, {}));
  },

  enqueue_singly: async (url, count) =>
    withUtils(url, async (utils) => {
      await utils.withPgClient((client) => client.query("select 1"));
      return {
        seconds: await timed(async () => {
          for (let n = 0; n < count; n++) await utils.addJob("noop", { n });
        }),
      };
    }),

  enqueue_bulk: async (url, count) =>
    withUtils(url, async (utils) => ({
      seconds: await timed(async () => {
        for (const payloads of pieces(count)) {
          await utils.addJobs(payloads.map((payload) => ({ identifier: "noop", payload })));
        }
      }),
    })),

  drain: async (url, count, { unfinished, batch }) => {
    const done = tally(count);
    const runner = await run({ ...options(url, busy(batch)), taskList: { noop: async () => done.add(1) } });
    const seconds = await drained(url, done, unfinished);
    await runner.stop();
    return { seconds, runs: done.runs };
  },

  work: async (url, count, { batch }) => {
    const starts = moments(count);
    const runner = await run({ ...options(url, busy(batch)), taskList: { noop: async ({ n }) => starts.note(n) } });
    const answer = await starts.wait();
    await runner.stop();
    return answer;
  },

  produce: async (url, count) =>
    withUtils(url, (utils) => produced(count, (payload) => utils.addJob("noop", payload))),

  serve: async (url, _count, { batch }) => {
    const reports = starts();
    const runner = await run({ ...options(url, busy(batch)), taskList: { noop: async ({ n }) => reports.note(n) } });
    await reports.ended;
    await runner.stop();
  },

  offer: async (url, rate, { seconds }) =>
    withUtils(url, (utils) =>
      offered(rate, seconds, (payloads) =>
        utils.addJobs(payloads.map((payload) => ({ identifier: "noop", payload }))),
      ),
    ),
});
