import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { saveEdit } from "@/api/edits";
import { useList } from "@/api/pages";
import { Action, Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { useChange } from "@/components/useChange";
import { MANAGERS, useCan } from "@/session/session";
import { useWithTenant } from "@/session/tenantColumn";
import { NameDialog } from "./NameDialog";
import type { Host } from "./state";

type Server = Schemas["ServerInstance"];

const LIST = "/api/v1/hosts/{host_id}/instances";
const ONE = "/api/v1/hosts/{host_id}/instances/{instance_id}";

/** How a server is edited: as it was shown, or not at all. */
function editOf({ id, host_id }: Server) {
  const params = { path: { host_id, instance_id: id } };
  return {
    entity: { type: "server_instance", id },
    read: () => client.GET(ONE, { params }),
    write: (body: Schemas["InstanceChange"], headers: { "If-Match": string }) => client.PATCH(ONE, { params, body, headers }),
  };
}

/** The servers on a host, which jobs may be sent to. */
export function Servers({ host }: { host: Host }) {
  const manages = useCan(MANAGERS);
  const [open, setOpen] = useState<"add" | { verb: "rename" | "remove"; server: Server } | null>(null);
  const close = (): void => setOpen(null);
  const path = { host_id: host.id };
  const pages = useList(LIST, {}, { path });
  const remove = useChange((server: Server) => client.DELETE(ONE, { params: { path: { ...path, instance_id: server.id } } }), {
    done: (server) => `${server.name} is removed`,
    lists: [LIST, "/api/v1/hosts"],
    onDone: close,
  });
  const own: Column<Server>[] = [
    { key: "name", header: "Server", width: "minmax(120px, 1fr)", text: (one) => one.name },
    { key: "since", header: "Added", width: "96px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    {
      key: "actions",
      header: "",
      width: "160px",
      align: "end",
      cell: (one) =>
        manages && (
          <>
            <Action onClick={() => setOpen({ verb: "rename", server: one })}>Rename</Action>
            <Action onClick={() => setOpen({ verb: "remove", server: one })}>Remove</Action>
          </>
        ),
    },
  ];
  const columns = useWithTenant(own, pages.rows);
  return (
    <Section title="Servers" actions={manages && <Button onClick={() => setOpen("add")}>Add a server</Button>}>
      <DataTable
        inline
        label="Servers"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={pages}
        empty={<p className="quiet">None.</p>}
      />
      {open === "add" && (
        <NameDialog
          title="Add a server"
          description={`A server on ${host.name}, such as a database or a game server. Jobs name it.`}
          action="Add server"
          save={async (name) => (await client.POST(LIST, { params: { path }, body: { name } })).data?.id}
          onClose={close}
          onSaved={close}
        />
      )}
      {open !== null && open !== "add" && open.verb === "rename" && (
        <NameDialog
          title={`Rename ${open.server.name}`}
          action="Rename"
          name={open.server.name}
          save={async (name) => (await saveEdit({ base: open.server, body: { name }, ...editOf(open.server) })).data?.id}
          onClose={close}
          onSaved={close}
        />
      )}
      {open !== null && open !== "add" && open.verb === "remove" && (
        <ChangeDialog
          danger
          onClose={close}
          title={`Remove ${open.server.name}?`}
          description="Jobs can no longer be sent to it. Finished jobs stay."
          action="Remove server"
          change={remove}
          input={open.server}
        />
      )}
    </Section>
  );
}
