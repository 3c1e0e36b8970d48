import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { saveEdit } from "@/api/edits";
import { useList } from "@/api/pages";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { ChangeDialog, SidePanel } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Switch } from "@/components/Form";
import { Id } from "@/components/Id";
import { Fact, Facts } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Time, useNow } from "@/components/Time";
import { useToast } from "@/components/Toast";
import { useEdit } from "@/components/useEdit";
import { whole } from "@/format/numbers";
import { useChange } from "@/components/useChange";
import { PauseButton, PausedChip } from "@/pauses/PauseControls";
import { usePauseOf } from "@/pauses/pauses";
import { MANAGERS, useCan } from "@/session/session";
import { useWithTenant } from "@/session/tenantColumn";
import { useTenant } from "@/session/tenant";
import { useTenantField } from "@/session/useTenantField";
import { NameDialog, useRefresh } from "./NameDialog";
import { HOST_SENTENCES, hostState, type Host } from "./state";
import { Servers } from "./Servers";
import styles from "./workers.module.css";

const COLUMNS: readonly Column<Host>[] = [
  { key: "state", header: "State", width: "112px", cell: (one) => <State host={one} /> },
  { key: "name", header: "Host", width: "minmax(140px, 2fr)", text: (one) => one.name },
  {
    key: "running",
    header: "Running",
    width: "136px",
    wideOnly: true,
    cell: (one) => (one.running_job_id === null ? <span className="quiet">nothing</span> : <RunningJob id={one.running_job_id} />),
  },
  { key: "waiting", header: "Waiting", width: "80px", align: "end", cell: (one) => whole(one.waiting_count) },
  { key: "servers", header: "Servers", width: "minmax(120px, 1fr)", wideOnly: true, text: (one) => one.instances.join(", ") },
  {
    key: "seen",
    header: "Last seen",
    width: "104px",
    wideOnly: true,
    cell: (one) => (one.last_seen_at === null ? <span className="quiet">never</span> : <Time at={one.last_seen_at} />),
  },
  { key: "version", header: "Agent", width: "88px", wideOnly: true, cell: (one) => one.agent_version ?? "" },
];

/** The machines that fetch their own jobs. */
export function HostList({ open, onOpen }: { open: string | undefined; onOpen: (id: string | undefined) => void }) {
  const tenant = useTenant();
  const may = useCan(MANAGERS);
  const [adding, setAdding] = useState(false);
  const pages = useList("/api/v1/hosts", { tenant }, { refetchInterval: 5000 });
  const columns = useWithTenant(COLUMNS, pages.rows);
  const add = may && <Button onClick={() => setAdding(true)}>Add a host</Button>;
  return (
    <>
      {pages.rows !== undefined && pages.rows.length > 0 && <div className={styles.line}>{add}</div>}
      <DataTable
        label="Hosts"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={pages}
        onOpen={(one) => onOpen(one.id)}
        openKey={open}
        empty={
          <EmptyState title="No hosts yet" command="atlas host add backup-box" action={add}>
            A host is a machine that fetches its own jobs over HTTPS, so it needs no open port.
          </EmptyState>
        }
      />
      {open !== undefined && <HostPanel key={open} id={open} onClose={() => onOpen(undefined)} />}
      {adding && (
        <AddHost
          onClose={() => setAdding(false)}
          onAdded={(id) => {
            setAdding(false);
            onOpen(id);
          }}
        />
      )}
    </>
  );
}

function AddHost({ onClose, onAdded }: { onClose: () => void; onAdded: (id: string | undefined) => void }) {
  const { tenant, isMissing, field } = useTenantField();
  return (
    <NameDialog
      title="Add a host"
      description="A machine that fetches its own jobs. Then create a token with the role host for it, in Settings."
      action="Add host"
      isMissing={isMissing}
      save={async (name) => (await client.POST("/api/v1/hosts", { params: { query: { tenant } }, body: { name } })).data?.id}
      onClose={onClose}
      onSaved={onAdded}
    >
      {field}
    </NameDialog>
  );
}

const LOOKS = { active: "alive", disabled: "disabled", stale: "stale", pending: "pending" } as const;
const WORDS = { active: "alive", disabled: "drained", stale: "silent", pending: "not seen" } as const;

function State({ host }: { host: Host }) {
  const state = hostState(host, useNow());
  const pause = usePauseOf({ kind: "host", target: host.id });
  if (pause !== undefined) return <PausedChip kind="host" target={host.id} />;
  return <StatusChip status={LOOKS[state]} label={WORDS[state]} />;
}

function RunningJob({ id }: { id: string }) {
  return (
    <Link to="/jobs/$jobId" params={{ jobId: id }}>
      <Id value={id} />
    </Link>
  );
}

function HostPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const query = api.useQuery("get", "/api/v1/hosts/{host_id}", { params: { path: { host_id: id } } }, { refetchInterval: 5000 });
  const host = query.data;
  const now = useNow();
  return (
    <SidePanel
      title={host?.name ?? "Host"}
      about={host && <State host={host} />}
      onClose={onClose}
      actions={host && <Actions host={host} onRemoved={onClose} />}
    >
      {host === undefined ? (
        query.isError ? (
          <ProblemView error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <Skeleton width="60%" />
        )
      ) : (
        <div className={styles.stack}>
          <p>{HOST_SENTENCES[hostState(host, now)]}</p>
          <Facts>
            <Fact name="Running">{host.running_job_id === null ? "nothing" : <RunningJob id={host.running_job_id} />}</Fact>
            <Fact name="Waiting jobs">{whole(host.waiting_count)}</Fact>
            <Fact name="Last seen">{host.last_seen_at === null ? "never" : <Time at={host.last_seen_at} />}</Fact>
            <Fact name="Agent">{host.agent_version ?? "unknown"}</Fact>
            <Fact name="Added">
              <Time at={host.created_at} />
            </Fact>
            <Fact name="Id">
              <Id value={host.id} />
            </Fact>
          </Facts>
          <Servers host={host} />
        </div>
      )}
    </SidePanel>
  );
}

/** How a host is edited: as it was shown, or not at all. */
function editOf(id: string) {
  const path = { host_id: id };
  return {
    entity: { type: "host", id },
    read: () => client.GET("/api/v1/hosts/{host_id}", { params: { path } }),
    write: async (body: Schemas["HostChange"], headers: { "If-Match": string }) =>
      (await client.PATCH("/api/v1/hosts/{host_id}", { params: { path }, body, headers })).data,
  };
}

function Actions({ host, onRemoved }: { host: Host; onRemoved: () => void }) {
  const may = useCan(MANAGERS);
  const refresh = useRefresh();
  const toast = useToast();
  const [open, setOpen] = useState<"rename" | "remove" | null>(null);
  const path = { host_id: host.id };
  const close = (): void => setOpen(null);
  const activate = useMutation({
    mutationFn: () => saveEdit({ base: host, body: { is_active: !host.is_active }, ...editOf(host.id) }),
    onSuccess: async (changed) => {
      await refresh();
      toast(changed?.is_active === true ? `${host.name} fetches jobs again` : `${host.name} fetches no new jobs`);
    },
    onError: (error) => toast(error.message, { failed: true }),
  });
  const remove = useChange(() => client.DELETE("/api/v1/hosts/{host_id}", { params: { path } }), {
    done: () => `${host.name} is removed`,
    lists: ["/api/v1/hosts"],
    onDone: onRemoved,
  });
  if (!may) return null;
  return (
    <>
      <Switch on={host.is_active} disabled={activate.isPending} label={`${host.name} fetches jobs`} onChange={() => activate.mutate()} />
      <PauseButton kind="host" target={host.id} name={host.name} />
      <Button onClick={() => setOpen("rename")}>Rename</Button>
      <Button onClick={() => setOpen("remove")}>Remove</Button>
      {open === "rename" && <RenameDialog host={host} onClose={close} />}
      {open === "remove" && (
        <ChangeDialog
          danger
          onClose={close}
          title={`Remove ${host.name}?`}
          description="Its tokens are revoked, and jobs can no longer be sent to it. Finished jobs stay."
          action="Remove host"
          change={remove}
        />
      )}
    </>
  );
}

/** Its edit begins from the name that the host has when the dialog opens. */
function RenameDialog({ host, onClose }: { host: Host; onClose: () => void }) {
  const edit = useEdit(host);
  const [{ name }] = useState(host);
  return (
    <NameDialog
      title={`Rename ${name}`}
      action="Rename"
      name={name}
      save={async (next) => (await edit({ body: { name: next }, ...editOf(host.id) }))?.id}
      onClose={onClose}
      onSaved={onClose}
    />
  );
}
