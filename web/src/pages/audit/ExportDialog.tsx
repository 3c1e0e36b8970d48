import { useState } from "react";
import { Command } from "@/components/EmptyState";
import { Dialog } from "@/components/Dialog";
import { Checkbox, TextField } from "@/components/Form";
import { OPERATORS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import styles from "./Audit.module.css";

/** Downloads the log, or a part of it, as a file that is verified without Atlas. */
export function ExportDialog({ onClose }: { onClose: () => void }) {
  const tenant = useTenant();
  const isOperator = useCan(OPERATORS);
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const [personal, setPersonal] = useState(false);
  const query = new URLSearchParams();
  if (tenant !== undefined) query.set("tenant", tenant);
  if (since !== "") query.set("since", new Date(since).toISOString());
  if (until !== "") query.set("until", new Date(until).toISOString());
  if (personal) query.set("personal", "true");
  return (
    <Dialog
      onClose={onClose}
      title="Export the audit log"
      description="JSON Lines, with the seals and checkpoints that prove each row. The export itself is recorded."
    >
      <TextField label="Sealed since" hint="Empty: from the beginning." type="datetime-local" value={since} onChange={setSince} />
      <TextField label="Sealed until" hint="Empty: up to now." type="datetime-local" value={until} onChange={setUntil} />
      {isOperator && (
        <Checkbox
          label="Include personal data that was not erased"
          checked={personal}
          onChange={(event) => setPersonal(event.target.checked)}
        />
      )}
      <p className="quiet">Check the file on any machine, with the public key:</p>
      <Command text="atlas audit verify --export audit.ndjson --key audit.pub" />
      <div className={styles.buttons}>
        <a className={styles.download} href={`/api/v1/audit/export?${query.toString()}`} download onClick={onClose}>
          Download
        </a>
      </div>
    </Dialog>
  );
}
