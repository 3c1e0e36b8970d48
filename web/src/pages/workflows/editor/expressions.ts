import type { Choice, Draft, DraftStep } from "./choices";
import { schemasAt, type Knowledge } from "./known";

const RUN = { id: "The run's id.", workflow: "The key of the workflow.", requested_by: "Who requested the run." };
const STEP = { output: "What the step returned.", status: "succeeded, failed or skipped." };
const DECISION = {
  approved: "Whether a person approved it.",
  by: "Who decided.",
  comment: "Why.",
  status: "approved, rejected or expired.",
};

/** The choices within a template, by what was written of its text; null where no expression is open. */
export function templateChoices(
  written: string,
  draft: Draft,
  step: number | null,
  known: Knowledge,
  isCondition: boolean,
): { choices: Choice[]; typed: string } | null {
  const expression = openExpression(written, isCondition);
  if (expression === null) return null;
  const pipe = /(\||\bis(?: not)?)\s*([A-Za-z_]*)$/.exec(expression);
  if (pipe !== null)
    return {
      choices: (pipe[1] === "|" ? known.filters : known.tests).map((one) => choice(one, "function", pipe[1] === "|" ? "filter" : "test")),
      typed: pipe[2] ?? "",
    };
  const token = /[A-Za-z_][\w.]*$/.exec(expression)?.[0] ?? "";
  if (token === "" && /[\w"'\])]\s*$/.test(expression)) return null;
  const path = token.split(".");
  const typed = path.pop() ?? "";
  return { choices: namesAt(path, draft, step), typed };
}

/** What is written of the expression that the end of a text is in. */
function openExpression(written: string, isCondition: boolean): string | null {
  const open = written.lastIndexOf("{{");
  if (open !== -1) return written.indexOf("}}", open) === -1 ? written.slice(open + 2) : null;
  return isCondition ? written : null;
}

function namesAt(path: readonly string[], draft: Draft, number: number | null): Choice[] {
  const step = number === null ? undefined : draft.steps[number];
  const before = number === null ? draft.steps : ancestors(draft, step);
  const [first, second, third, ...rest] = path;
  if (first === undefined) return roots(step, before).map(([name, info]) => choice(name, "variable", undefined, info));
  if (first === "run") return second === undefined ? all(RUN) : [];
  if (first === "input") {
    const root = draft.inputSchema ?? {};
    return schemasAt(root, root, path.slice(1)).flatMap((one) =>
      Object.entries(one.properties ?? {}).map(([name, { type, description }]) => choice(name, "variable", type?.toString(), description)),
    );
  }
  if (first !== "steps") return [];
  if (second === undefined) return before.flatMap((one) => (typeof one.id === "string" ? [choice(one.id, "variable", "step")] : []));
  if (third === undefined) return all(STEP);
  const read = draft.steps.find((one) => one.id === second);
  return third === "output" && rest.length === 0 && read?.approval !== undefined && read.each === undefined ? all(DECISION) : [];
}

function roots(step: DraftStep | undefined, before: readonly DraftStep[]): [string, string][] {
  const found: [string, string][] = [
    ["input", "The input of the run."],
    ["run", "The run itself."],
  ];
  if (before.length > 0) found.push(["steps", "The steps that finished before."]);
  if (step !== undefined && before.some((one) => one.event !== undefined)) found.push(["event", "The context of the last event."]);
  if (step?.each !== undefined) found.push(["item", "The current item."], ["index", "The index of the item, from 0."]);
  return found;
}

/** The steps that end before a step begins. */
function ancestors(draft: Draft, step: DraftStep | undefined): DraftStep[] {
  const found = new Set<DraftStep>();
  const visit = (one: DraftStep | undefined): void => {
    for (const need of Array.isArray(one?.needs) ? one.needs : []) {
      const before = draft.steps.find((other) => other.id === need);
      if (before === undefined || before === step || found.has(before)) continue;
      found.add(before);
      visit(before);
    }
  };
  visit(step);
  return draft.steps.filter((one) => found.has(one));
}

function all(names: Record<string, string>): Choice[] {
  return Object.entries(names).map(([name, info]) => choice(name, "variable", undefined, info));
}

function choice(label: string, kind: Choice["kind"], detail?: string, info?: string): Choice {
  return { label, insert: label, cursor: label.length, kind, ...(detail !== undefined && { detail }), ...(info !== undefined && { info }) };
}
