import { client, type Schemas } from "@/api/client";
import { conflictOf } from "@/api/edits";
import { MAX_LISTED } from "@/api/pages";
import { isStatus } from "@/api/problem";
import { serverNow } from "@/format/clock";
import { nameOf, PAUSES, type Pause } from "./pauses";

type NewPause = Schemas["PauseBody"];

/** Pauses something that is not paused, or changes the pause that was shown. Throws an EditConflict if someone else was faster. */
export async function setPause(body: NewPause, tenant: string | undefined, shown: Pause | null): Promise<Pause | undefined> {
  // A workflow is paused for one tenant or for all; every other kind belongs to one tenant or to none.
  const query = body.kind === "workflow" ? { tenant } : {};
  const header = shown === null ? { "if-none-match": "*" as const } : { "if-match": tagOf(shown) };
  try {
    return (await client.PUT(PAUSES, { params: { query, header }, body })).data;
  } catch (error) {
    if (!isStatus(error, 412)) throw error;
    const isFor = (one: Pause): boolean => body.kind !== "workflow" || one.tenant === (tenant ?? null);
    const isNamed = (one: Pause): boolean => one.target === body.target || nameOf(one) === body.target;
    const held = await findPause((one) => one.kind === body.kind && isNamed(one) && isFor(one));
    if (held === undefined) throw error;
    // Someone else has paused it so: a second time changes nothing.
    if (held.reason === (body.reason ?? null) && held.until === null && body.for_seconds == null) return held;
    const until = body.for_seconds == null ? null : new Date(serverNow() + body.for_seconds * 1000).toISOString();
    throw await conflictWith(held, { reason: body.reason ?? null, until });
  }
}

/** Ends the pause that was shown. Throws an EditConflict if someone else has changed it. */
export async function endPause(shown: Pause): Promise<void> {
  try {
    await client.DELETE("/api/v1/pauses/{pause_id}", { params: { path: { pause_id: shown.id }, header: { "if-match": tagOf(shown) } } });
  } catch (error) {
    const held = isStatus(error, 412) ? await findPause((one) => one.id === shown.id) : undefined;
    if (held === undefined) throw error;
    throw await conflictWith(held, { reason: "resumed", until: "resumed" });
  }
}

/** The entity tag of a pause is its version. */
function tagOf({ version }: Pause): string {
  return `"${version}"`;
}

async function findPause(isMeant: (one: Pause) => boolean): Promise<Pause | undefined> {
  const { data } = await client.GET(PAUSES, { params: { query: { limit: MAX_LISTED } } });
  return data?.items.find(isMeant);
}

function conflictWith(held: Pause, mine: { reason: string | null; until: string | null }) {
  const { reason, until } = held;
  const fields = [
    { name: "reason", theirs: reason, mine: mine.reason },
    { name: "until", theirs: until, mine: mine.until },
  ];
  return conflictOf(fields, held, { type: held.kind, id: held.target, tenant: held.tenant ?? undefined });
}
