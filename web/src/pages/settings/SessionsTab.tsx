import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Action } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import { useChange } from "@/components/useChange";

type OpenSession = Schemas["OpenSession"];

const LIST = "/api/v1/sessions";

/** Who is signed in; a session can be ended from here. */
export function SessionsTab() {
  const tenant = useTenant();
  const [ending, setEnding] = useState<OpenSession | null>(null);
  const { rows, ...query } = useList(LIST, { tenant });
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
    { key: "browser", header: "Browser", width: "minmax(112px, 1fr)", wideOnly: true, text: (one) => one.browser ?? "unknown" },
    {
      key: "address",
      header: "Address",
      width: "minmax(96px, 0.8fr)",
      wideOnly: true,
      text: (one) => one.address ?? "erased",
      look: "mono",
    },
    { key: "since", header: "Signed in", width: "92px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    { key: "seen", header: "Last seen", width: "92px", wideOnly: true, cell: (one) => <Time at={one.last_seen_at} /> },
    { key: "ends", header: "Expires", width: "80px", wideOnly: true, cell: (one) => <Time at={one.expires_at} /> },
    { key: "end", header: "", width: "72px", align: "end", cell: (one) => <Action onClick={() => setEnding(one)}>End</Action> },
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
