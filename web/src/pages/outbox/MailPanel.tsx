import { Link } from "@tanstack/react-router";
import { Paperclip } from "lucide-react";
import { api, type Schemas } from "@/api/client";
import { SidePanel } from "@/components/Dialog";
import { TextView } from "@/components/JsonView";
import { Fact, Facts } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { Tabs } from "@/components/Tabs";
import { Time } from "@/components/Time";
import { bytes } from "@/format/numbers";
import { useTenant } from "@/session/tenant";
import styles from "./Outbox.module.css";
import type { PARTS } from "./search";

type Part = (typeof PARTS)[number];
type Details = Schemas["MailDetails"];

interface MailPanelProps {
  jobId: string;
  part: Part | undefined;
  onPart: (part: Part) => void;
  onClose: () => void;
}

/** One mail. Its HTML is shown in a frame in which nothing runs and nothing is loaded. */
export function MailPanel({ jobId, part, onPart, onClose }: MailPanelProps) {
  const tenant = useTenant();
  const query = api.useQuery("get", "/api/v1/outbox/{job_id}", { params: { path: { job_id: jobId }, query: { tenant } } });
  const mail = query.data;
  return (
    <SidePanel title={mail === undefined || mail.subject === "" ? "Mail" : mail.subject} onClose={onClose}>
      {query.isPending && <Skeleton height={200} />}
      {query.isError && <ProblemView error={query.error} onRetry={() => void query.refetch()} />}
      {mail !== undefined && <Mail mail={mail} part={part ?? (mail.has_html ? "html" : "text")} onPart={onPart} />}
    </SidePanel>
  );
}

function Mail({ mail, part, onPart }: { mail: Details; part: Part; onPart: (part: Part) => void }) {
  const tenant = useTenant();
  const query = tenant === undefined ? "" : `?tenant=${encodeURIComponent(tenant)}`;
  return (
    <div className={styles.panel}>
      <Facts>
        <Fact name="From">{mail.sender}</Fact>
        <Fact name="To">{mail.to}</Fact>
        <Fact name="Written">
          <Time at={mail.written_at} />
        </Fact>
        <Fact name="Job">
          <Link to="/jobs/$jobId" params={{ jobId: mail.job_id }} className="mono">
            Open the job
          </Link>
        </Fact>
      </Facts>
      {mail.attachments.length > 0 && (
        <ul className={styles.files} aria-label="Attachments">
          {mail.attachments.map((file, at) => (
            <li key={at}>
              <Paperclip size={12} aria-hidden />
              {file.name === "" ? "without a name" : file.name} <span className="quiet">{`${file.content_type}, ${bytes(file.size)}`}</span>
            </li>
          ))}
        </ul>
      )}
      <Tabs
        label="Parts of the mail"
        value={part}
        onChange={onPart}
        tabs={[
          ...(mail.has_html
            ? [{ key: "html" as const, label: "HTML", content: () => <Preview address={`/api/v1/outbox/${mail.job_id}/html${query}`} /> }]
            : []),
          { key: "text", label: "Text", content: () => <Text text={mail.text} /> },
          {
            key: "headers",
            label: "Headers",
            content: () => <Headers mail={mail} address={`/api/v1/outbox/${mail.job_id}/source${query}`} />,
          },
        ]}
      />
    </div>
  );
}

/** The sandbox forbids scripts, forms and navigation of this page; the document's own policy forbids them once more, and all loading. */
function Preview({ address }: { address: string }) {
  return (
    <>
      <iframe className={styles.preview} title="HTML of the mail" sandbox="" referrerPolicy="no-referrer" src={address} />
      <p className={styles.note}>Scripts, forms, links and pictures from elsewhere are left out.</p>
    </>
  );
}

function Text({ text }: { text: string | null }) {
  return text === null ? <p className="quiet">This mail has no plain text.</p> : <TextView text={text} label="text of the mail" />;
}

function Headers({ mail, address }: { mail: Details; address: string }) {
  return (
    <>
      <TextView text={mail.headers.map((one) => `${one.name}: ${one.value}`).join("\n")} label="headers of the mail" />
      <p className={styles.note}>
        <a href={address} download>
          Download the whole mail
        </a>
        , for any mail program.
      </p>
    </>
  );
}
