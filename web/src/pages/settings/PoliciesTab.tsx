import { Scale } from "lucide-react";
import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Field, Select, TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { whole } from "@/format/numbers";
import { useEdit } from "@/components/useEdit";
import { OPERATORS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import { useChange } from "./useChange";

type Rule = Schemas["PolicyRule"];
type Effect = Rule["effect"];

const LIST = "/api/v1/policies";
const ONE = "/api/v1/policies/{label}";
const CHIPS: Record<Effect, { status: string; label: string }> = {
  allow: { status: "approved", label: "allow" },
  review: { status: "pending", label: "review" },
  block: { status: "blocked", label: "block" },
};

/** The rules by which requests for workflows are decided; the strictest that applies decides. */
export function PoliciesTab() {
  const tenant = useTenant();
  const isOperator = useCan(OPERATORS);
  const [editing, setEditing] = useState<Rule | "new" | null>(null);
  const [removing, setRemoving] = useState<Rule | null>(null);
  const filters = { tenant, limit: 100 };
  const { rows, ...query } = usePages(
    ["get", LIST, filters],
    async (at) => (await client.GET(LIST, { params: { query: { ...filters, ...at } } })).data,
  );
  const remove = useChange(
    (rule: Rule) => client.DELETE(ONE, { params: { path: { label: rule.label }, query: { tenant: rule.tenant_id ?? undefined } } }),
    {
      done: (rule) => `The rule ${rule.label} is removed`,
      lists: [LIST],
      onDone: () => setRemoving(null),
    },
  );
  const own: Column<Rule>[] = [
    { key: "label", header: "Rule", width: "minmax(120px, 1.2fr)", cell: (one) => <span className="truncate">{one.label}</span> },
    { key: "effect", header: "Effect", width: "100px", cell: (one) => <StatusChip {...CHIPS[one.effect]} /> },
    {
      key: "workflow",
      header: "Workflow",
      width: "minmax(100px, 1fr)",
      wideOnly: true,
      cell: (one) => <span className="mono truncate">{one.workflow}</span>,
    },
    {
      key: "when",
      header: "When",
      width: "minmax(160px, 2fr)",
      wideOnly: true,
      cell: (one) => <span className="truncate">{condition(one)}</span>,
    },
    { key: "for", header: "For", width: "100px", wideOnly: true, cell: (one) => (one.tenant_id === null ? "all tenants" : "one tenant") },
    {
      key: "edit",
      header: "",
      width: "140px",
      align: "end",
      cell: (one) =>
        isOperator && (
          <>
            <Button kind="ghost" onClick={() => setEditing(one)}>
              Edit
            </Button>
            <Button kind="ghost" onClick={() => setRemoving(one)}>
              Remove
            </Button>
          </>
        ),
    },
  ];
  const columns = useWithTenant(own, rows);
  return (
    <Section
      title="Policies"
      actions={
        isOperator && (
          <Button kind="primary" icon={<Scale size={14} aria-hidden />} onClick={() => setEditing("new")}>
            New rule
          </Button>
        )
      }
    >
      <DataTable
        label="policies"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={
          <EmptyState title="No rules: every request for a workflow is allowed">
            A rule sends requests to a person, or blocks them, by workflow, cost or number of runs.
          </EmptyState>
        }
      />
      {editing !== null && <EditRule rule={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
      {removing !== null && (
        <ChangeDialog
          danger
          onClose={() => setRemoving(null)}
          title={`Remove the rule ${removing.label}?`}
          description="Applies to requests that are decided from now on."
          action="Remove the rule"
          change={remove}
          input={removing}
        />
      )}
    </Section>
  );
}

/** When a rule applies, as a sentence. */
export function condition(rule: Pick<Rule, "spend_above_cents" | "spend_per_day_cents" | "runs_per_day" | "except_workflows">): string {
  const parts = [
    rule.spend_above_cents !== null && `a run may cost more than ${euros(rule.spend_above_cents)}`,
    rule.spend_per_day_cents !== null && `the day costs more than ${euros(rule.spend_per_day_cents)}`,
    rule.runs_per_day !== null && `there were more than ${whole(rule.runs_per_day)} runs within a day`,
  ].filter((part) => part !== false);
  const except = rule.except_workflows.length === 0 ? "" : `, except ${rule.except_workflows.join(", ")}`;
  return (parts.length === 0 ? "always" : parts.join(" and ")) + except;
}

function euros(cents: number): string {
  return (cents / 100).toFixed(2);
}

function EditRule({ rule, onClose }: { rule: Rule | null; onClose: () => void }) {
  const tenant = useTenant();
  const [label, setLabel] = useState(rule?.label ?? "");
  const [effect, setEffect] = useState<Effect>(rule?.effect ?? "review");
  const [workflow, setWorkflow] = useState(rule?.workflow ?? "*");
  const [except, setExcept] = useState(rule?.except_workflows.join(", ") ?? "");
  const [spend, setSpend] = useState(text(rule?.spend_above_cents));
  const [perDay, setPerDay] = useState(text(rule?.spend_per_day_cents));
  const [runs, setRuns] = useState(text(rule?.runs_per_day));
  const edit = useEdit(rule);
  const save = useChange(
    () => {
      const bounds = { spend_above_cents: number(spend), spend_per_day_cents: number(perDay), runs_per_day: number(runs) };
      const body = {
        effect,
        workflow,
        except_workflows: except
          .split(",")
          .map((one) => one.trim())
          .filter((one) => one !== ""),
        ...bounds,
      };
      if (rule === null) return client.POST(LIST, { params: { query: { tenant } }, body: { label, ...body } });
      const params = { path: { label: rule.label }, query: { tenant: rule.tenant_id ?? undefined } };
      return edit({
        body,
        entity: { type: "policy_rule", id: rule.id },
        read: () => client.GET(ONE, { params }),
        write: (change, headers) => client.PATCH(ONE, { params, body: change, headers }),
      });
    },
    { done: () => `The rule ${label} is saved`, lists: [LIST], onDone: onClose },
  );
  const about =
    rule === null
      ? tenant === undefined
        ? "Applies to all tenants."
        : `Applies to ${tenant}.`
      : "Applies to requests that are decided from now on.";
  return (
    <ChangeDialog
      onClose={onClose}
      title={rule === null ? "New rule" : `Edit ${rule.label}`}
      description={about}
      action="Save"
      change={save}
      disabled={label === "" || workflow === ""}
    >
      {rule === null && <TextField label="Label" required name="label" value={label} maxLength={200} onChange={setLabel} />}
      <Field label="Effect" hint="Review asks a person first." name="effect">
        {(control) => (
          <Select {...control} value={effect} onChange={(event) => setEffect(event.target.value as Effect)}>
            <option value="allow">allow</option>
            <option value="review">review</option>
            <option value="block">block</option>
          </Select>
        )}
      </Field>
      <TextField label="Workflow" hint="A key, or a pattern with * and ?." name="workflow" value={workflow} onChange={setWorkflow} />
      <TextField label="Except workflows" hint="Separated by commas." name="except_workflows" value={except} onChange={setExcept} />
      <TextField
        label="A run may cost more than, in cents"
        hint="Empty: any cost."
        name="spend_above_cents"
        type="number"
        min={0}
        value={spend}
        onChange={setSpend}
      />
      <TextField
        label="The day costs more than, in cents"
        name="spend_per_day_cents"
        type="number"
        min={0}
        value={perDay}
        onChange={setPerDay}
      />
      <TextField label="More runs within a day than" name="runs_per_day" type="number" min={0} value={runs} onChange={setRuns} />
    </ChangeDialog>
  );
}

function text(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : String(value);
}

function number(value: string): number | null {
  return value === "" ? null : Number(value);
}
