import { Scale } from "lucide-react";
import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Action, Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Field, Select, TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { exactMoney, whole } from "@/format/numbers";
import { useEdit } from "@/components/useEdit";
import { useFields } from "@/components/useFields";
import { OPERATORS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import { listOf } from "./lists";
import { useChange } from "@/components/useChange";

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
  const { rows, ...query } = useList(LIST, { tenant });
  const remove = useChange(
    (rule: Rule) => client.DELETE(ONE, { params: { path: { label: rule.label }, query: { tenant: rule.tenant_id ?? undefined } } }),
    {
      done: (rule) => `The rule ${rule.label} is removed`,
      lists: [LIST],
      onDone: () => setRemoving(null),
    },
  );
  const own: Column<Rule>[] = [
    { key: "label", header: "Rule", width: "minmax(120px, 1.2fr)", text: (one) => one.label },
    { key: "effect", header: "Effect", width: "100px", cell: (one) => <StatusChip {...CHIPS[one.effect]} /> },
    { key: "workflow", header: "Workflow", width: "minmax(100px, 1fr)", wideOnly: true, text: (one) => one.workflow, look: "mono" },
    { key: "when", header: "When", width: "minmax(160px, 2fr)", wideOnly: true, text: (one) => condition(one) },
    { key: "for", header: "For", width: "100px", wideOnly: true, cell: (one) => (one.tenant_id === null ? "all tenants" : "one tenant") },
    {
      key: "edit",
      header: "",
      width: "140px",
      align: "end",
      cell: (one) =>
        isOperator && (
          <>
            <Action onClick={() => setEditing(one)}>Edit</Action>
            <Action onClick={() => setRemoving(one)}>Remove</Action>
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
            A rule requires an approval for requests, or blocks them, by workflow, cost or number of runs.
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
    rule.spend_above_cents !== null && `a run may cost more than ${exactMoney(rule.spend_above_cents)}`,
    rule.spend_per_day_cents !== null && `the runs of a day cost more than ${exactMoney(rule.spend_per_day_cents)}`,
    rule.runs_per_day !== null && `more than ${whole(rule.runs_per_day)} runs a day start`,
  ].filter((part) => part !== false);
  const except = rule.except_workflows.length === 0 ? "" : `, except ${rule.except_workflows.join(", ")}`;
  return (parts.length === 0 ? "always" : parts.join(" and ")) + except;
}

function EditRule({ rule, onClose }: { rule: Rule | null; onClose: () => void }) {
  const tenant = useTenant();
  const [effect, setEffect] = useState<Effect>(rule?.effect ?? "review");
  const { values, field } = useFields({
    label: rule?.label ?? "",
    workflow: rule?.workflow ?? "*",
    except_workflows: rule?.except_workflows.join(", ") ?? "",
    spend_above_cents: String(rule?.spend_above_cents ?? ""),
    spend_per_day_cents: String(rule?.spend_per_day_cents ?? ""),
    runs_per_day: String(rule?.runs_per_day ?? ""),
  });
  const { label, workflow } = values;
  const edit = useEdit(rule);
  const save = useChange(
    () => {
      const body = {
        effect,
        workflow,
        except_workflows: listOf(values.except_workflows),
        spend_above_cents: number(values.spend_above_cents),
        spend_per_day_cents: number(values.spend_per_day_cents),
        runs_per_day: number(values.runs_per_day),
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
      {rule === null && <TextField label="Label" required maxLength={200} {...field("label")} />}
      <Field label="Effect" hint="Review requires an approval." name="effect">
        {(control) => (
          <Select {...control} value={effect} onChange={(event) => setEffect(event.target.value as Effect)}>
            <option value="allow">allow</option>
            <option value="review">review</option>
            <option value="block">block</option>
          </Select>
        )}
      </Field>
      <TextField label="Workflow" hint="A key, or a pattern with * and ?." {...field("workflow")} />
      <TextField label="Except workflows" hint="Separated by commas." {...field("except_workflows")} />
      <TextField label="Cost of a run above, in cents" hint="Empty: any cost." type="number" min={0} {...field("spend_above_cents")} />
      <TextField label="Cost of a day above, in cents" type="number" min={0} {...field("spend_per_day_cents")} />
      <TextField label="Runs a day above" type="number" min={0} {...field("runs_per_day")} />
    </ChangeDialog>
  );
}

function number(value: string): number | null {
  return value === "" ? null : Number(value);
}
