// BullMQ on a Redis without persistence. Finished jobs are removed, as graphile-worker does.
import { Queue, Worker } from "bullmq";
import { emptied, main, moments, pieces, produced, tally, timed } from "./measure.mjs";

const connection = (url) => ({ path: new URL(url).pathname, maxRetriesPerRequest: null });
const defaultJobOptions = { removeOnComplete: true };

async function withQueue(url, use) {
  const queue = new Queue("noop", { connection: connection(url), defaultJobOptions });
  await queue.waitUntilReady();
  try {
    return await use(queue);
  } finally {
    await queue.close();
  }
}

async function withWorker(url, concurrency, handler, use) {
  const worker = new Worker("noop", handler, { connection: connection(url), concurrency });
  await worker.waitUntilReady();
  try {
    return await use();
  } finally {
    await worker.close(true);
  }
}

const unfinished = async (queue) =>
  Object.values(await queue.getJobCounts("wait", "active", "delayed", "prioritized", "failed")).reduce((a, b) => a + b);

await main({
  prepare: async () => ({}),

  unfinished: async (url) => withQueue(url, async (queue) => ({ unfinished: await unfinished(queue) })),

  enqueue_singly: async (url, count) =>
    withQueue(url, async (queue) => ({
      seconds: await timed(async () => {
        for (let n = 0; n < count; n++) await queue.add("noop", { n });
      }),
    })),

  enqueue_bulk: async (url, count) =>
    withQueue(url, async (queue) => ({
      seconds: await timed(async () => {
        for (const payloads of pieces(count)) await queue.addBulk(payloads.map((data) => ({ name: "noop", data })));
      }),
    })),

  drain: async (url, count, { batch }) =>
    withQueue(url, async (queue) => {
      const done = tally(count);
      const seconds = await withWorker(url, batch, async () => done.add(1), () => emptied(done, () => unfinished(queue)));
      return { seconds, runs: done.runs };
    }),

  work: async (url, count, { batch }) => {
    const starts = moments(count);
    return withWorker(url, batch, async (job) => starts.note(job.data.n), () => starts.wait());
  },

  produce: async (url, count) => withQueue(url, (queue) => produced(count, (data) => queue.add("noop", data))),
});
