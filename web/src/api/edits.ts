import { isSame } from "@/format/json";
import { client } from "./client";
import { isStatus } from "./problem";

type Fields = Record<string, unknown>;

/** A field that was changed elsewhere while it was being edited here. */
export interface ChangedField {
  name: string;
  theirs: unknown;
  mine: unknown;
}

/** Someone else has changed what is being edited. Nothing was saved. */
export class EditConflict extends Error {
  readonly fields: readonly ChangedField[];
  /** Who changed it, and when, if the audit log says so. */
  readonly by: string | null;
  readonly at: string | null;
  /** What it is now: the next edit begins from it. */
  readonly current: object;

  constructor(fields: readonly ChangedField[], current: object, by: string | null, at: string | null) {
    const names = fields.map(({ name, theirs }) => `${name.replaceAll("_", " ")} is now ${shown(theirs)}`).join(", ");
    super(`${by ?? "Someone else"} has changed this meanwhile: ${names}. Nothing was saved.`);
    this.name = "EditConflict";
    this.fields = fields;
    this.current = current;
    this.by = by;
    this.at = at;
  }
}

/** Where the audit log has the changes of something; of which tenant, where several may have one with this id. */
export interface AuditedEntity {
  type: string;
  id: string;
  tenant?: string | undefined;
}

export interface Edit<Entity extends object, Body extends object, Result> {
  /** What was shown when the edit began: the fields that it sets, at least. */
  base: Partial<Entity>;
  /** The fields that it sets. */
  body: Body;
  /** Where the audit log has its changes. */
  entity: AuditedEntity;
  /** Reads what it is now. */
  read: () => Promise<{ data?: Entity; response: Response }>;
  /** Saves the body with the header that names the state it edits. */
  write: (body: Body, headers: { "If-Match": string }) => Promise<Result>;
}

const MAX_TRIES = 3;

/** Changes something unless the edited fields were changed elsewhere since they were shown: then it throws an EditConflict. */
export async function saveEdit<Entity extends object, Body extends object, Result>(edit: Edit<Entity, Body, Result>): Promise<Result> {
  for (let tries = 1; ; tries += 1) {
    const { data: current, response } = await edit.read();
    const tag = response.headers.get("etag");
    if (current === undefined || tag === null) throw new Error("The server named no state to edit.");
    const fields = changedFields(edit.base, current, edit.body);
    if (fields.length > 0) throw await conflictOf(fields, current, edit.entity);
    try {
      return await edit.write(edit.body, { "If-Match": tag });
    } catch (error) {
      // It was changed after it was read: look what it is now.
      if (!isStatus(error, 412) || tries === MAX_TRIES) throw error;
    }
  }
}

/** The fields of an edit that differ from what was shown, and from what is to be saved. */
export function changedFields(base: object, current: object, body: object): ChangedField[] {
  const [before, now] = [base as Fields, current as Fields];
  return Object.entries(body as Fields)
    .filter(([name, mine]) => !isSame(before[name] ?? null, now[name] ?? null) && !isSame(now[name] ?? null, mine ?? null))
    .map(([name, mine]) => ({ name, theirs: now[name], mine }));
}

/** The conflict of an edit with what someone else has made of it, and who that was. */
export async function conflictOf(
  fields: readonly ChangedField[],
  current: object,
  { type, id, tenant }: AuditedEntity,
): Promise<EditConflict> {
  const query = { entity_type: type, entity_id: id, tenant, limit: 20 };
  const rows = await client.GET("/api/v1/audit", { params: { query } }).catch(() => null);
  const row = rows?.data?.items.find(({ action }) => /_(EDITED|ENABLED|DISABLED|RENAMED|ONLINE|OFFLINE)$|^PAUSED$/.test(action));
  // What is not in the audit log of this role may say itself who changed it.
  const { by, since } = current as { by?: string | null; since?: string | null };
  return new EditConflict(fields, current, row?.actor_id ?? by ?? null, row?.created_at ?? since ?? null);
}

/** A value of a field as people read it. */
export function shown(value: unknown): string {
  if (value === null || value === undefined || value === "") return "empty";
  return typeof value === "string" ? value : JSON.stringify(value);
}
