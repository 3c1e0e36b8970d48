import { useNavigate, useSearch } from "@tanstack/react-router";
import { CirclePause } from "lucide-react";
import { useList } from "@/api/pages";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Page } from "@/components/Page";
import { Time } from "@/components/Time";
import { capitalized } from "@/format/words";
import { PauseDialog, ResumeDialog } from "@/pauses/PauseDialog";
import { nameOf, nounOf, PAUSES, type Pause, useMayResume } from "@/pauses/pauses";
import { MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import type { PausesSearch } from "./search";

/** Everything that is paused, and the way to pause and resume. */
export function PausesPage() {
  const search = useSearch({ from: "/pauses" });
  const navigate = useNavigate({ from: "/pauses" });
  const set = (changes: PausesSearch): void => void navigate({ search: ({ tenant }) => ({ tenant, ...changes }), replace: true });
  const manages = useCan(MANAGERS);
  const mayResume = useMayResume();
  const pages = useList(PAUSES, { tenant: useTenant() }, { live: ["pause"], refetchInterval: 30_000 });
  const resumed = pages.rows?.find((one) => one.id === search.resume);
  const action = manages && (
    <Button kind="primary" icon={<CirclePause size={14} aria-hidden />} onClick={() => set({ new: "pause" })}>
      Pause something
    </Button>
  );
  const own: Column<Pause>[] = [
    { key: "kind", header: "Kind", width: "96px", cell: (one) => capitalized(nounOf(one.kind)) },
    { key: "name", header: "Name", width: "minmax(140px, 2fr)", text: (one) => nameOf(one) },
    { key: "for", header: "For", width: "112px", wideOnly: true, text: (one) => one.tenant ?? "all tenants", look: "id" },
    { key: "reason", header: "Reason", width: "minmax(140px, 2fr)", wideOnly: true, text: (one) => one.reason ?? "" },
    { key: "by", header: "Paused by", width: "minmax(120px, 1fr)", wideOnly: true, text: (one) => one.by },
    { key: "since", header: "Since", width: "104px", align: "end", wideOnly: true, cell: (one) => <Time at={one.since} /> },
    {
      key: "until",
      header: "Resumes",
      width: "112px",
      align: "end",
      cell: (one) => (one.until === null ? <span className="quiet">by hand</span> : <Time at={one.until} />),
    },
    {
      key: "resume",
      header: "",
      width: "96px",
      align: "end",
      cell: (one) =>
        mayResume(one) && (
          <Button kind="ghost" aria-label={`Resume ${nameOf(one)}`} onClick={() => set({ resume: one.id })}>
            Resume
          </Button>
        ),
    },
  ];
  const columns = useWithTenant(own, pages.rows);
  return (
    <Page title="Pauses" fill actions={action}>
      <DataTable
        label="Pauses"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={pages}
        empty={
          <EmptyState title="Nothing is paused" command='atlas pause type EMAIL_SEND --for 2h --reason "provider outage"' action={action}>
            Pause a tenant, job type, command, workflow, schedule or host: it starts nothing until it is resumed. Everything else goes on.
          </EmptyState>
        }
      />
      {search.new !== undefined && <PauseDialog key={search.target} kind={search.kind} target={search.target} onClose={() => set({})} />}
      {resumed !== undefined && <ResumeDialog pause={resumed} onClose={() => set({})} />}
    </Page>
  );
}
