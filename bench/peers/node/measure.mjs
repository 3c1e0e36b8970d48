// What both Node peers need: a stopwatch around a tally of handler runs, steady pacing, one JSON line out.
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";

// Unmeasured jobs before the latency samples: connections open and code paths warm up.
export const WARM_UP = 10;

// How many jobs one bulk call carries.
const BULK = 5000;

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
    if (count.runs === 0) count.startedAt = performance.now();
    count.runs += runs;
    if (count.runs >= expected) reached();
  };
  return count;
}

/** Seconds from the first handler's start until `unfinished` counts no job, asked only after the last start. */
export async function drained(url, count, unfinished) {
  await count.all;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  while (Number((await client.query(unfinished)).rows[0].count) > 0) await pause(1);
  const seconds = (performance.now() - count.startedAt) / 1000;
  await client.end();
  return seconds;
}

/** Seconds that `work` takes. */
export async function timed(work) {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1000;
}

/** The payloads of `count` jobs, cut for a bulk call. */
export function* pieces(count) {
  for (let from = 0; from < count; from += BULK) {
    yield Array.from({ length: Math.min(BULK, count - from) }, (_, index) => ({ n: from + index }));
  }
}

/** Enqueue a job every 50 ms; seconds from each call's return to its handler's start. */
export async function latencies(count, startedAt, enqueue) {
  const returnedAt = [];
  for (let n = 0; n < count + WARM_UP; n++) {
    const tick = performance.now();
    await enqueue({ n });
    returnedAt.push(performance.now());
    await pause(Math.max(0, 50 - (performance.now() - tick)));
  }
  while (startedAt.size < count + WARM_UP) await pause(5);
  return returnedAt.map((moment, n) => (startedAt.get(n) - moment) / 1000).slice(WARM_UP);
}
