import { useMutation } from "@tanstack/react-query";
import { ChevronRight } from "lucide-react";
import { client, type Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { Field, TextArea } from "@/components/Form";
import { JsonView } from "@/components/JsonView";
import { Section } from "@/components/Page";
import { ProblemLine } from "@/components/ProblemView";
import { SchemaForm } from "@/components/SchemaForm";
import { initialValue, type Schema } from "@/components/schema";
import { StatusChip } from "@/components/StatusChip";
import { type JsonObject, parsed } from "@/format/json";
import { plural } from "@/format/numbers";
import { useTenant } from "@/session/tenant";
import styles from "./Workflows.module.css";

export type DryRun = Schemas["DryRun"];
type DryStep = Schemas["DryStep"];

/** The status whose look a decision has. */
const LOOKS: Record<string, string> = { runs: "active", depends: "waiting", skipped: "skipped", fails: "failed", unreached: "unreached" };

/** What a dry run is given; it outlives the tab. */
export interface DryInput {
  input: JsonObject;
  /** The outputs to suppose, as they are written, by step. */
  outputs: Record<string, string>;
}

export function useDryRun() {
  const tenant = useTenant();
  return useMutation({
    mutationFn: async ({ document, input, outputs }: { document: JsonObject; input: JsonObject; outputs: JsonObject }) =>
      (await client.POST("/api/v1/workflows/dry-run", { params: { query: { tenant } }, body: { document, input, outputs } })).data,
  });
}

interface DryRunTabProps {
  document: JsonObject | null;
  given: DryInput;
  onGiven: (given: DryInput) => void;
  run: ReturnType<typeof useDryRun>;
  onRun: () => void;
}

/** Follows the text with an input, without effects. */
export function DryRunTab({ document, given, onGiven, run, onRun }: DryRunTabProps) {
  const schema = (typeof document?.["inputSchema"] === "object" ? document["inputSchema"] : {}) as Schema;
  const found = run.data;
  const reasonOf = (path: string): string | undefined =>
    found?.errors.find((one) => one.field === (path === "" ? "input" : `input.${path}`))?.reason;
  const wrong = Object.values(given.outputs).some((text) => text.trim() !== "" && parsed(text) === undefined);
  return (
    <div className={styles.panel}>
      <p className="quiet">Decides which steps would run with an input, and fills in their templates. Nothing is started.</p>
      <Section title="Input">
        <SchemaForm
          key={JSON.stringify(schema)}
          schema={schema}
          value={given.input}
          onChange={(input) => onGiven({ ...given, input })}
          reasonOf={reasonOf}
        />
      </Section>
      <div>
        <Button kind="primary" busy={run.isPending} disabled={document === null || wrong} onClick={onRun}>
          Dry run
        </Button>
      </div>
      <ProblemLine error={run.error} />
      {found !== undefined && <Result found={found} given={given} onGiven={onGiven} />}
    </div>
  );
}

/** The input that a dry run of a document begins with. */
export function firstInput(document: JsonObject | null): JsonObject {
  const schema = document?.["inputSchema"];
  return (typeof schema === "object" && schema !== null ? (initialValue(schema) ?? {}) : {}) as JsonObject;
}

function Result({ found, given, onGiven }: { found: DryRun; given: DryInput; onGiven: (given: DryInput) => void }) {
  const count = (decision: string): number => found.steps.filter((step) => step.decision === decision).length;
  const parts = [
    [count("runs"), "would run"],
    [count("depends"), "depend on outputs"],
    [count("skipped"), "would be skipped"],
    [count("fails"), "would fail"],
    [count("unreached"), "would not be reached"],
  ] as const;
  const said = parts.filter(([number]) => number > 0).map(([number, words]) => `${number} ${words}`);
  return (
    <Section title="Result">
      <p role="status">
        {found.steps.length === 0 ? "Nothing: it is refused." : `Of ${plural(found.steps.length, "step")}, ${said.join(", ")}.`}
      </p>
      <Reasons list={found.errors} wrong />
      <div>
        {found.steps.map((step) => (
          <Step
            key={step.id}
            step={step}
            supposed={given.outputs[step.id]}
            onSuppose={(text) => onGiven({ ...given, outputs: { ...given.outputs, [step.id]: text } })}
          />
        ))}
      </div>
      {found.steps.length > 0 && found.ok && (
        <>
          <h3>Output of the run</h3>
          <JsonView label="output of the run" value={found.output} />
          <Reasons list={found.pending} />
        </>
      )}
    </Section>
  );
}

function Step({ step, supposed, onSuppose }: { step: DryStep; supposed: string | undefined; onSuppose: (text: string) => void }) {
  const inputs = step.items === null ? step.inputs[0] : step.inputs;
  return (
    <details className={styles.dryStep} open={step.errors.length > 0 || undefined}>
      <summary>
        <ChevronRight size={14} aria-hidden />
        <span>{step.id}</span>
        <span className={`${styles.target} truncate`}>{typeof step.target === "string" ? step.target : JSON.stringify(step.target)}</span>
        <span className={styles.spacer} />
        <StatusChip status={LOOKS[step.decision] ?? step.decision} label={step.decision} />
      </summary>
      <div className={styles.dryBody}>
        <p>
          {step.reason}
          {step.items !== null &&
            ` Runs once for each of ${plural(step.items, "item")}${step.items > step.inputs.length ? `, of which the first ${step.inputs.length} are shown` : ""}.`}
        </p>
        <Reasons list={step.errors} wrong />
        <Reasons list={step.warnings} wrong />
        {inputs !== undefined && JSON.stringify(inputs) !== "{}" && <JsonView label={`input of ${step.id}`} value={inputs} />}
        <Reasons list={step.pending} />
        {step.kind !== "sleep" && step.decision !== "skipped" && step.decision !== "unreached" && (
          <Suppose step={step} text={supposed ?? ""} onChange={onSuppose} />
        )}
      </div>
    </details>
  );
}

function Suppose({ step, text, onChange }: { step: DryStep; text: string; onChange: (text: string) => void }) {
  const wrong = text.trim() !== "" && parsed(text) === undefined;
  return (
    <Field
      label={`Suppose ${step.id} returns`}
      hint="JSON; the next dry run continues with it"
      error={wrong ? "Not valid JSON yet." : undefined}
    >
      {(control) => (
        <TextArea
          {...control}
          rows={2}
          value={text}
          placeholder={step.kind === "approval" ? '{"approved": true, "by": "ben"}' : "{}"}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

function Reasons({ list, wrong = false }: { list: readonly { field: string; reason: string }[]; wrong?: boolean }) {
  if (list.length === 0) return null;
  return (
    <ul className={styles.reasons}>
      {list.map((one) => (
        <li key={one.field + one.reason} className={wrong ? styles.wrong : "quiet"}>
          <code>{one.field}</code> {one.reason}
        </li>
      ))}
    </ul>
  );
}
