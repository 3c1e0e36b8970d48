// What the Node peers share: a stopwatch around a tally of handler runs, steady pacing, one JSON line out.
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";

// Unmeasured jobs before the latency samples: connections open and code paths warm up.
const WARM_UP = 10;

// How many jobs one bulk call carries.
const BULK = 1000;

/** Seconds of the machine's monotonic clock, which all processes share. */
export const now = () => Number(process.hrtime.bigint()) / 1e9;

/** Run the verb named on the command line (`VERB COUNT UNFINISHED BATCH [SECONDS]`) and print what it returns. */
export async function main(verbs) {
  const [verb, count, unfinished, batch, seconds] = process.argv.slice(2);
  const options = { unfinished, batch: Number(batch), seconds: Number(seconds) };
  const answer = await verbs[verb](process.env.DATABASE_URL, Number(count), options);
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

// A steady load: jobs carry the microsecond in which they were enqueued. What is printed is what bench/horizon/starts.py prints.
const REPORT_MS = 100;
const TICK_MS = 10;
const micros = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const report = (facts) => process.stdout.write(`${JSON.stringify(facts)}\n`);

/** Report how many jobs ran, and how long each waited, until SIGTERM. */
export function starts() {
  let done = 0;
  let latencies = {};
  const timer = setInterval(() => {
    report({ done, latencies });
    [done, latencies] = [0, {}];
  }, REPORT_MS);
  return {
    note: (enqueued) => {
      const bucket = Math.trunc(Math.log(Math.max((micros() - enqueued) / 1000, 0.1) / 0.1) / Math.log(1.05));
      latencies[bucket] = (latencies[bucket] ?? 0) + 1;
      done += 1;
    },
    ended: new Promise((resolve) => process.once("SIGTERM", resolve)).then(() => clearInterval(timer)),
  };
}

/** Enqueue `rate` jobs a second, some at a time, for some seconds. */
export async function offered(rate, seconds, enqueue) {
  report({ offered: 0 });
  const began = now();
  let [sent, reported, reportedAt] = [0, 0, began];
  for (let at = began; at - began < seconds; at = now()) {
    const count = Math.trunc((at - began) * rate) - sent;
    if (count > 0) {
      const n = micros();
      await enqueue(Array.from({ length: count }, () => ({ n })));
      sent += count;
    }
    if ((at - reportedAt) * 1000 >= REPORT_MS) {
      report({ offered: sent - reported });
      [reported, reportedAt] = [sent, at];
    }
    await pause(Math.max(0, TICK_MS - (now() - at) * 1000));
  }
  report({ offered: sent - reported });
}
