// What the Node peers share: a stopwatch around a tally of handler runs, steady pacing, one JSON line out.
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";

// Unmeasured jobs before the latency samples: connections open and code paths warm up.
const WARM_UP = 10;

// How many jobs one bulk call carries.
const BULK = 1000;

/** Seconds of the machine's monotonic clock, which all processes share. */
export const now = () => Number(process.hrtime.bigint()) / 1e9;

/** Run the verb named on the command line (`VERB COUNT UNFINISHED BATCH`) and print what it returns. */
export async function main(verbs) {
  const [verb, count, unfinished, batch] = process.argv.slice(2);
  const answer = await verbs[verb](process.env.DATABASE_URL, Number(count), { unfinished, batch: Number(batch) });
  process.stdout.write(`${JSON.stringify(answer ?? {})}\n`, () => process.exit(0));
}

/** Count handler runs; `all` resolves once `expected` have started. */
export function tally(expected) {
  let reached;
  const all = new Promise((resolve) => (reached = resolve));
  const count = { runs: 0, startedAt: 0, all };
  count.add = (runs) => {
    if (count.runs === 0) count.startedAt = now();
    count.runs += runs;
    if (count.runs >= expected) reached();
  };
  return count;
}

/** Seconds from the first handler's start until `unfinished` counts no job, asked only after the last start. */
export async function drained(url, count, unfinished) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const seconds = await emptied(count, async () => Number((await client.query(unfinished)).rows[0].count));
  await client.end();
  return seconds;
}

/** The same for any store that can count its unfinished jobs. */
export async function emptied(count, unfinished) {
  await count.all;
  while ((await unfinished()) > 0) await pause(1);
  return now() - count.startedAt;
}

/** Seconds that `work` takes. */
export async function timed(work) {
  const startedAt = now();
  await work();
  return now() - startedAt;
}

/** The payloads of `count` jobs, cut for a bulk call. */
export function* pieces(count) {
  for (let from = 0; from < count; from += BULK) {
    yield Array.from({ length: Math.min(BULK, count - from) }, (_, index) => ({ n: from + index }));
  }
}

/** The moments of `count` numbered jobs; a job of a backlog has a number below zero. */
export function moments(count) {
  const at = new Map();
  return {
    note: (n) => void (n >= 0 && at.set(n, now())),
    /** Let the worker become idle, say so, and wait for every job. */
    wait: async () => {
      await pause(500);
      process.stdout.write("ready\n");
      while (at.size < count + WARM_UP) await pause(5);
      return { moments: Array.from({ length: count + WARM_UP }, (_, n) => at.get(n)) };
    },
  };
}

/** Enqueue a job every 50 ms; when each call began and returned. */
export async function produced(count, enqueue) {
  const calls = [];
  for (let n = 0; n < count + WARM_UP; n++) {
    const called = now();
    await enqueue({ n });
    calls.push([called, now()]);
    await pause(Math.max(0, 50 - (now() - called) * 1000));
  }
  return { calls };
}
