// Restate: a service whose handler records five steps in the journal of a Restate server of its own.
import http2 from "node:http2";
import * as restate from "@restatedev/restate-sdk";
import { emptied, main, moments, now, produced, tally } from "./measure.mjs";

const STEPS = 5;
// Long enough to send every invocation before the first is due.
const LEAD_SECONDS = 5;

const [ingress, admin] = process.env.DATABASE_URL.split(" ");

/** Serve the workflow on a free port and make it known to the server. */
async function serve(begin, end) {
  const workflow = async (ctx, { n }) => {
    begin(n);
    for (let step = 0; step < STEPS; step++) await ctx.run(`step ${step}`, () => null);
    end(n);
  };
  const service = restate.service({ name: "bench", handlers: { workflow } });
  const server = http2.createServer(restate.createEndpointHandler({ services: [service], logger: () => {} }));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  await post(`${admin}/deployments`, { uri: `http://127.0.0.1:${server.address().port}` });
}

async function post(url, body, headers = {}) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`Error: ${url} returned ${answer.status}: ${await answer.text()}`);
  return answer.json();
}

async function unfinished() {
  const query = "select count(*) as count from sys_invocation where status <> 'completed'";
  return (await post(`${admin}/query`, { query }, { accept: "application/json" })).rows[0].count;
}

await main({
  prepare: async () => ({}),

  // All invocations are due at the same moment.
  workflows: async (_url, count) => {
    const begun = tally(count);
    await serve(() => begun.add(1), () => {});
    const due = now() + LEAD_SECONDS;
    const numbers = Array.from({ length: count }, (_, n) => n);
    const send = async () => {
      for (let n = numbers.pop(); n !== undefined; n = numbers.pop()) {
        const delay = Math.max(1, Math.round((due - now()) * 1000));
        await post(`${ingress}/bench/workflow/send?delay=${delay}ms`, { n });
      }
    };
    await Promise.all(Array.from({ length: 20 }, send));
    if (now() > due) throw new Error("Error: the invocations were not sent before the first was due");
    return { seconds: await emptied(begun, unfinished), runs: begun.runs };
  },

  work: async (_url, count) => {
    const ends = moments(count);
    await serve(() => {}, ends.note);
    return await ends.wait();
  },

  produce: async (_url, count) => produced(count, (payload) => post(`${ingress}/bench/workflow/send`, payload)),
});
