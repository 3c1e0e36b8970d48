import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import { useChange } from "./useChange";

type OpenSession = Schemas["OpenSession"];

const LIST = "/api/v1/sessions";

/** Who is signed in; a session can be ended from here. */
export function SessionsTab() {
  const tenant = useTenant();
  const [ending, setEnding] = useState<OpenSession | null>(null);
  const filters = { tenant, limit: 100 };
  const { rows, ...query } = usePages(
    ["get", LIST, filters],
    async (at) => (await client.GET(LIST, { params: { query: { ...filters, ...at } } })).data,
  );
  const end = useChange(
    (one: OpenSession) => client.DELETE("/api/v1/sessions/{session_id}", { params: { path: { session_id: one.id }, query: { tenant } } }),
    {
      done: (one) => `A session of ${one.subject} has ended`,
      lists: [LIST],
      onDone: () => setEnding(null),
    },
  );
  const own: Column<OpenSession>[] = [
    {
      key: "subject",
      header: "Who",
      width: "minmax(180px, 1.4fr)",
      cell: (one) => (
        <>
          <span className="truncate">{one.subject}</span>
          {one.is_current && <span className="quiet">this browser</span>}
        </>
      ),
    },
    { key: "role", header: "Role", width: "100px", cell: (one) => one.role },
    { key: "prefix", header: "Token", width: "84px", wideOnly: true, cell: (one) => <span className="mono">{one.prefix}</span> },
    {
      key: "browser",
      header: "Browser",
      width: "minmax(112px, 1fr)",
      wideOnly: true,
      cell: (one) => <span className="truncate">{one.browser ?? "unknown"}</span>,
    },
    {
      key: "address",
      header: "Address",
      width: "minmax(96px, 0.8fr)",
      wideOnly: true,
      cell: (one) => <span className="mono truncate">{one.address ?? "erased"}</span>,
    },
    { key: "since", header: "Signed in", width: "92px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    { key: "seen", header: "Last seen", width: "92px", wideOnly: true, cell: (one) => <Time at={one.last_seen_at} /> },
    { key: "ends", header: "Ends", width: "80px", wideOnly: true, cell: (one) => <Time at={one.expires_at} /> },
    {
      key: "end",
      header: "",
      width: "72px",
      align: "end",
      cell: (one) => (
        <Button kind="ghost" onClick={() => setEnding(one)}>
          End
        </Button>
      ),
    },
  ];
  const columns = useWithTenant(own, rows);
  return (
    <Section title="Sessions">
      <DataTable
        label="sessions"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={<EmptyState title="No session is open">Sessions last twelve hours, or until their token is revoked.</EmptyState>}
      />
      {ending !== null && (
        <ChangeDialog
          danger
          onClose={() => setEnding(null)}
          title={ending.is_current ? "Sign out of this browser?" : `End the session of ${ending.subject}?`}
          description="Its next request is refused. The token stays valid: revoke it to keep someone out."
          action={ending.is_current ? "Sign out" : "End the session"}
          change={end}
          input={ending}
        />
      )}
    </Section>
  );
}
