import { useNavigate, useSearch } from "@tanstack/react-router";
import { Building2 } from "lucide-react";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Action, Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { useEdit } from "@/components/useEdit";
import { useFields } from "@/components/useFields";
import { PauseButton, PausedChip } from "@/pauses/PauseControls";
import { usePauseOf } from "@/pauses/pauses";
import { OPERATORS, useCan } from "@/session/session";
import { RemoveTenant } from "./RemoveTenant";
import { MoveTenant } from "./MoveTenant";
import { LimitFields } from "./LimitFields";
import { limitsOf, textsOf } from "./limits";
import { useChange } from "@/components/useChange";

type Tenant = Schemas["Tenant"];

export const TENANTS = "/api/v1/tenants";
const ONE_TENANT = "/api/v1/tenants/{slug_or_id}";

/** All tenants, by slug, page by page. */
export function useTenants() {
  const { rows, ...query } = useList(TENANTS, {});
  return { query, rows };
}

/** The customers of the installation, with their clocks and limits. */
export function TenantsTab() {
  const { query, rows } = useTenants();
  const isOperator = useCan(OPERATORS);
  const [adding, setAdding] = useState(false);
  const [asked, setAsked] = useState<{ what: "move" | "remove"; tenant: Tenant } | null>(null);
  const { edit } = useSearch({ from: "/settings" });
  const navigate = useNavigate({ from: "/settings" });
  const setEditing = (slug: string | undefined): void => void navigate({ search: (before) => ({ ...before, edit: slug }), replace: true });
  const columns: Column<Tenant>[] = [
    { key: "slug", header: "Slug", width: "minmax(100px, 1fr)", text: (one) => one.slug, look: "id" },
    { key: "name", header: "Name", width: "minmax(120px, 1.5fr)", text: (one) => one.name },
    { key: "zone", header: "Time zone", width: "130px", wideOnly: true, cell: (one) => one.timezone },
    {
      key: "limits",
      header: "Limits",
      wideOnly: true,
      cell: (one) => (
        <span className="mono truncate quiet">{Object.keys(one.limits).length === 0 ? "defaults" : JSON.stringify(one.limits)}</span>
      ),
    },
    { key: "state", header: "State", width: "110px", wideOnly: true, cell: (one) => <TenantState tenant={one} /> },
    { key: "made", header: "Since", width: "100px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    {
      key: "edit",
      header: "",
      width: "236px",
      align: "end",
      cell: (one) =>
        isOperator &&
        one.removing_at === null && (
          <>
            {one.moving_at === null && (
              <>
                <PauseButton kind="tenant" target={one.id} name={one.slug} small />
                <Action onClick={() => setEditing(one.slug)}>Edit</Action>
              </>
            )}
            <Action onClick={() => setAsked({ what: "move", tenant: one })}>Move</Action>
            <Action onClick={() => setAsked({ what: "remove", tenant: one })}>Remove</Action>
          </>
        ),
    },
  ];
  return (
    <Section
      title="Tenants"
      actions={
        isOperator && (
          <Button kind="primary" icon={<Building2 size={14} aria-hidden />} onClick={() => setAdding(true)}>
            New tenant
          </Button>
        )
      }
    >
      <DataTable
        label="tenants"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={
          <EmptyState title="No tenants yet" command="atlas tenant add acme --name Acme">
            Jobs, tokens and audit rows belong to a tenant.
          </EmptyState>
        }
      />
      {adding && <NewTenant onClose={() => setAdding(false)} />}
      {asked?.what === "move" && <MoveTenant tenant={asked.tenant} onClose={() => setAsked(null)} />}
      {asked?.what === "remove" && <RemoveTenant tenant={asked.tenant} onClose={() => setAsked(null)} />}
      {edit !== undefined && isOperator && <EditBySlug slug={edit} onClose={() => setEditing(undefined)} />}
    </Section>
  );
}

function TenantState({ tenant }: { tenant: Tenant }) {
  const pause = usePauseOf({ kind: "tenant", target: tenant.id });
  return pause === undefined ? <StatusChip {...stateOf(tenant)} /> : <PausedChip kind="tenant" target={tenant.id} />;
}

function stateOf(tenant: Tenant): { status: string; label: string } {
  if (tenant.removing_at !== null) return { status: "canceled", label: "being removed" };
  if (tenant.moving_at !== null) return { status: "waiting", label: "moving" };
  return { status: "active", label: "active" };
}

function NewTenant({ onClose }: { onClose: () => void }) {
  const { values, field } = useFields({ slug: "", name: "", timezone: "UTC" });
  const add = useChange(() => client.POST(TENANTS, { body: values }), {
    done: () => `The tenant ${values.slug} is added`,
    lists: [TENANTS],
    onDone: onClose,
  });
  return (
    <ChangeDialog
      onClose={onClose}
      title="New tenant"
      action="Add the tenant"
      change={add}
      disabled={values.slug === "" || values.name === ""}
    >
      <TextField
        label="Slug"
        hint="Short name in URLs and commands. It cannot be changed later."
        required
        maxLength={63}
        {...field("slug")}
      />
      <TextField label="Name" required maxLength={200} {...field("name")} />
      <TextField label="Time zone" hint="Time zone of its schedules." {...field("timezone")} />
    </ChangeDialog>
  );
}

/** How a tenant is edited: as it was shown, or not at all. */
export function tenantEdit({ id, slug }: Tenant) {
  const params = { path: { slug_or_id: slug } };
  return {
    entity: { type: "tenant", id },
    read: () => client.GET(ONE_TENANT, { params }),
    write: (body: Schemas["TenantChange"], headers: { "If-Match": string }) => client.PATCH(ONE_TENANT, { params, body, headers }),
  };
}

/** It may be one that the list has not come to. */
function EditBySlug({ slug, onClose }: { slug: string; onClose: () => void }) {
  const params = { path: { slug_or_id: slug } };
  const { data } = api.useQuery("get", "/api/v1/tenants/{slug_or_id}", { params }, { staleTime: 0, gcTime: 0 });
  return data === undefined ? null : <EditTenant key={data.id} tenant={data} onClose={onClose} />;
}

function EditTenant({ tenant, onClose }: { tenant: Tenant; onClose: () => void }) {
  const { values, field } = useFields({ name: tenant.name, timezone: tenant.timezone });
  const [limits, setLimits] = useState(() => textsOf(tenant.limits));
  const save = useEdit(tenant);
  const edit = useChange(() => save({ body: { ...values, limits: limitsOf(limits) }, ...tenantEdit(tenant) }), {
    done: () => `The tenant ${tenant.slug} is changed`,
    lists: [TENANTS],
    onDone: onClose,
  });
  return (
    <ChangeDialog onClose={onClose} title={`Edit ${tenant.slug}`} action="Save" change={edit} disabled={values.name === ""}>
      <TextField label="Name" required maxLength={200} {...field("name")} />
      <TextField label="Time zone" hint="Its schedules use this time zone from now on." {...field("timezone")} />
      <LimitFields texts={limits} onChange={setLimits} />
    </ChangeDialog>
  );
}
