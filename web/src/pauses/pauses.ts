import { api, type Schemas } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { MANAGERS, OPERATORS, READERS, useCan, useSeesAll, useSession } from "@/session/session";
import { useTenant } from "@/session/tenant";

export type Pause = Schemas["Pause"];
export type PauseKind = Schemas["PauseBody"]["kind"];

export const PAUSES = "/api/v1/pauses";
/** What a role may pause. Types and definitions belong to no tenant. */
export const TENANT_KINDS: readonly PauseKind[] = ["tenant", "workflow", "trigger", "host"];
export const KINDS: readonly PauseKind[] = ["type", "tenant", "workflow", "trigger", "host", "definition"];

const NOUNS: Record<string, string> = { type: "job type", trigger: "schedule", definition: "command" };

/** What people call a kind of target: "job type". */
export function nounOf(kind: string): string {
  return NOUNS[kind] ?? kind;
}

export function nameOf(pause: Pause): string {
  return pause.name ?? pause.target;
}

/** What is paused, oldest first; for the roles that may see it. */
export function usePauses(): readonly Pause[] | undefined {
  const enabled = useCan(READERS);
  const params = { query: { tenant: useTenant(), limit: MAX_LISTED } };
  const query = api.useQuery("get", "/api/v1/pauses", { params }, { enabled, meta: { live: ["pause"] }, refetchInterval: 30_000 });
  return query.data?.items;
}

export interface Target {
  kind: PauseKind;
  /** Its key, or the id of a tenant, host or trigger. */
  target: string;
}

/** What holds something. A job type is also held by the pause of its command; a workflow by those of one tenant and of all. */
export function usePausesOf({ kind, target }: Target): readonly Pause[] {
  const kinds = kind === "type" ? ["type", "definition"] : [kind];
  return (usePauses() ?? []).filter((one) => kinds.includes(one.kind) && one.target === target);
}

/** The pause of something, for those whose the page shows: with all tenants, not that of a workflow of one tenant. */
export function usePauseOf(target: Target): Pause | undefined {
  const { tenant_id } = useSession();
  const ofOne = useTenant() !== undefined || tenant_id !== null;
  const pauses = usePausesOf(target);
  if (target.kind !== "workflow") return pauses[0];
  const ofAll = pauses.find((one) => one.tenant_id === null);
  return ofOne ? (pauses.find((one) => one.tenant_id !== null) ?? ofAll) : ofAll;
}

/** Whether the signed-in person may pause things of a kind. */
export function useMayPause(kind: PauseKind): boolean {
  const operates = useCan(OPERATORS);
  const manages = useCan(MANAGERS);
  return TENANT_KINDS.includes(kind) ? manages : operates;
}

/** Tells whether the signed-in person may end a pause: that of a tenant's own, or any as an operator. */
export function useMayResume(): (pause: Pause) => boolean {
  const operates = useCan(OPERATORS);
  const seesAll = useSeesAll();
  const manages = useCan(MANAGERS);
  return (pause) => (operates && seesAll) || (manages && pause.tenant_id !== null);
}
