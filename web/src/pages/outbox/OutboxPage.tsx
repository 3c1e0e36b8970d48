import { useNavigate, useSearch } from "@tanstack/react-router";
import { CircleAlert } from "lucide-react";
import { useMemo } from "react";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Id } from "@/components/Id";
import { Page } from "@/components/Page";
import { Time } from "@/components/Time";
import { bytes } from "@/format/numbers";
import { useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { MailPanel } from "./MailPanel";

type Mail = Schemas["OutboxMail"];

const LIMIT = 100;

/** The mails that were written as files instead of being sent, newest first. */
export function OutboxPage() {
  const search = useSearch({ from: "/outbox" });
  const navigate = useNavigate({ from: "/outbox" });
  const tenant = useTenant();
  const { rows, ...query } = useList("/api/v1/outbox", { tenant, limit: LIMIT }, { live: ["job"] });
  const columns = useColumns();
  return (
    <Page title="Outbox" fill about={<span className="quiet">Mails that were written instead of sent</span>}>
      <DataTable
        label="mails"
        rows={rows}
        rowKey={(mail) => mail.job_id}
        columns={columns}
        query={query}
        openKey={search.mail}
        onOpen={(mail) =>
          void navigate({ search: (before) => ({ ...before, mail: mail.job_id === before.mail ? undefined : mail.job_id }) })
        }
        empty={
          <EmptyState
            title="No mails yet"
            command={`atlas enqueue EMAIL_SEND --tenant ${tenant ?? "demo"} --input '{"to": "ann@example.com", "subject": "Hello", "text": "It works."}'`}
          >
            With the provider <code>outbox</code>, the default of a new installation, every mail is written here instead of being sent.
          </EmptyState>
        }
      />
      {search.mail !== undefined && (
        <MailPanel
          key={search.mail}
          jobId={search.mail}
          part={search.part}
          onPart={(part) => void navigate({ search: (before) => ({ ...before, part }) })}
          onClose={() => void navigate({ search: (before) => ({ ...before, mail: undefined, part: undefined }) })}
        />
      )}
    </Page>
  );
}

function useColumns(): Column<Mail>[] {
  const seesAll = useSeesAll();
  return useMemo(() => {
    const columns: (Column<Mail> | false)[] = [
      { key: "to", header: "To", width: "minmax(140px, 1.2fr)", text: (mail) => mail.to },
      { key: "subject", header: "Subject", width: "minmax(140px, 2fr)", cell: (mail) => <Subject mail={mail} /> },
      { key: "from", header: "From", width: "minmax(140px, 1fr)", wideOnly: true, text: (mail) => mail.sender, look: "quiet" },
      seesAll && {
        key: "tenant",
        header: "Tenant",
        width: "110px",
        wideOnly: true,
        text: (mail) => mail.tenant,
      },
      { key: "job", header: "Job", width: "150px", wideOnly: true, cell: (mail) => <Id value={mail.job_id} /> },
      {
        key: "size",
        header: "Size",
        width: "84px",
        align: "end" as const,
        wideOnly: true,
        cell: (mail) => <span className="quiet">{bytes(mail.size)}</span>,
      },
      { key: "at", header: "Written", width: "110px", align: "end" as const, cell: (mail) => <Time at={mail.written_at} /> },
    ];
    return columns.filter((one) => one !== false);
  }, [seesAll]);
}

function Subject({ mail }: { mail: Mail }) {
  if (mail.problem === null)
    return <span className="truncate">{mail.subject === "" ? <span className="quiet">no subject</span> : mail.subject}</span>;
  return (
    <>
      <CircleAlert size={14} aria-hidden />
      <span className="truncate">{mail.problem}</span>
    </>
  );
}
