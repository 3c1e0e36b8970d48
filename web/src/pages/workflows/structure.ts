import { isObject, isSame, type JsonObject, parsed } from "@/format/json";

/** A value that differs. It is undefined where there is none. */
export interface Difference {
  /** Where it stands: "input.customer". */
  path: string;
  before: unknown;
  after: unknown;
}

export interface StepChange {
  id: string;
  kind: "added" | "removed" | "changed" | "renamed";
  /** What the step does, or the id that it had. */
  about: string;
  differences: Difference[];
}

export interface StructureDiff {
  fields: Difference[];
  steps: StepChange[];
}

const VERBS = ["job", "workflow", "sleep", "event", "approval"];

/** What differs between two workflows as JSON, step by step; null where one of them is no object, such as a text that is half written. */
export function compareStructure(before: string, after: string): StructureDiff | null {
  const [one, other] = [parsed(before), parsed(after)];
  if (!isObject(one) || !isObject(other)) return null;
  const [{ steps: oldSteps, ...oldFields }, { steps: newSteps, ...newFields }] = [one, other];
  const [was, is] = [stepsById(oldSteps), stepsById(newSteps)];
  if (was === null || is === null) return null;
  const fields = differences(oldFields, newFields);
  const kept = (ids: Iterable<string>): string[] => [...ids].filter((id) => was.has(id) && is.has(id));
  const [oldOrder, newOrder] = [kept(was.keys()), kept(is.keys())];
  if (!isSame(oldOrder, newOrder)) fields.push({ path: "order of the steps", before: oldOrder, after: newOrder });
  return { fields, steps: stepChanges(was, is) };
}

function stepChanges(was: ReadonlyMap<string, JsonObject>, is: ReadonlyMap<string, JsonObject>): StepChange[] {
  const removed = new Map([...was].filter(([id]) => !is.has(id)));
  const changes: StepChange[] = [];
  for (const [id, step] of is) {
    const before = was.get(id);
    if (before !== undefined) {
      const found = differences(before, step);
      if (found.length > 0) changes.push({ id, kind: "changed", about: aboutStep(step), differences: found });
      continue;
    }
    const earlier = [...removed].find(([, other]) => isSame({ ...other, id }, step));
    if (earlier === undefined) {
      changes.push({ id, kind: "added", about: aboutStep(step), differences: [] });
    } else {
      removed.delete(earlier[0]);
      changes.push({ id, kind: "renamed", about: `from ${earlier[0]}`, differences: [] });
    }
  }
  for (const [id, step] of removed) changes.push({ id, kind: "removed", about: aboutStep(step), differences: [] });
  return changes;
}

function aboutStep(step: JsonObject): string {
  const verb = VERBS.find((name) => step[name] !== undefined);
  return verb === undefined ? "" : `${verb} ${typeof step[verb] === "string" ? step[verb] : JSON.stringify(step[verb])}`;
}

/** The steps by their ids; null where one has none, or two have the same. */
function stepsById(steps: unknown): ReadonlyMap<string, JsonObject> | null {
  if (steps === undefined) return new Map();
  if (!Array.isArray(steps)) return null;
  const found = new Map<string, JsonObject>();
  for (const step of steps as unknown[]) {
    if (!isObject(step) || typeof step["id"] !== "string" || found.has(step["id"])) return null;
    found.set(step["id"], step);
  }
  return found;
}

function differences(before: JsonObject, after: JsonObject, prefix = ""): Difference[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) => {
    const [one, other] = [before[name], after[name]];
    if (isSame(one, other)) return [];
    const path = `${prefix}${name}`;
    return isObject(one) && isObject(other) ? differences(one, other, `${path}.`) : [{ path, before: one, after: other }];
  });
}
