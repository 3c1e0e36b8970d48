import { Clock, Zap } from "lucide-react";
import { useList } from "@/api/pages";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { PausedChip } from "@/pauses/PauseControls";
import { usePauseOf } from "@/pauses/pauses";
import { MANAGERS, useCan } from "@/session/session";
import { useWithTenant } from "@/session/tenantColumn";
import { useTenant } from "@/session/tenant";
import { FireResult } from "./FireResult";
import styles from "./schedules.module.css";
import { TriggerPanel } from "./TriggerPanel";
import { targetOf, troubleOf, type Trigger } from "./triggers";

const COLUMNS: readonly Column<Trigger>[] = [
  { key: "state", header: "State", width: "112px", cell: (one) => <TriggerState trigger={one} /> },
  { key: "label", header: "Name", width: "minmax(140px, 2fr)", text: (one) => one.label },
  { key: "when", header: "When", width: "minmax(150px, 2fr)", cell: (one) => <When trigger={one} /> },
  { key: "starts", header: "Starts", width: "minmax(140px, 2fr)", wideOnly: true, cell: (one) => <Target trigger={one} /> },
  {
    key: "next",
    header: "Next",
    width: "96px",
    wideOnly: true,
    cell: (one) => (one.next_fire_at === null || !one.is_enabled ? <span className="quiet">–</span> : <Time at={one.next_fire_at} />),
  },
  { key: "last", header: "Last", width: "168px", wideOnly: true, cell: (one) => <LastFire trigger={one} /> },
];

/** The triggers; one of them is open beside the list. */
export function TriggerList({
  open,
  onOpen,
  onAdd,
}: {
  open: string | undefined;
  onOpen: (id: string | undefined) => void;
  onAdd: () => void;
}) {
  const tenant = useTenant();
  const may = useCan(MANAGERS);
  const pages = useList("/api/v1/jobs/triggers", { tenant }, { live: ["trigger"], refetchInterval: 30_000 });
  const columns = useWithTenant(COLUMNS, pages.rows);
  return (
    <>
      <DataTable
        label="Triggers"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={pages}
        onOpen={(one) => onOpen(one.id)}
        openKey={open}
        empty={
          <EmptyState
            title="No triggers yet"
            command={'atlas trigger add --tenant demo --label "Morning report" --cron "0 7 * * 1-5" --job-type report.build'}
            action={
              may && (
                <Button kind="primary" onClick={onAdd}>
                  New trigger
                </Button>
              )
            }
          >
            A trigger starts a job, a command or a workflow at set times or when an event arrives.
          </EmptyState>
        }
      />
      {open !== undefined && <TriggerPanel key={open} id={open} onClose={() => onOpen(undefined)} />}
    </>
  );
}

export function TriggerState({ trigger }: { trigger: Trigger }) {
  const pause = usePauseOf({ kind: "trigger", target: trigger.id });
  if (!trigger.is_enabled) return <StatusChip status="disabled" />;
  if (pause !== undefined) return <PausedChip kind="trigger" target={trigger.id} />;
  const trouble = troubleOf(trigger);
  return trouble === null ? (
    <StatusChip status="active" />
  ) : (
    <span title={trouble}>
      <StatusChip status="blocked" />
    </span>
  );
}

function When({ trigger }: { trigger: Trigger }) {
  if (trigger.trigger_type === "event") {
    return (
      <span className={styles.when}>
        <Zap size={12} aria-label="on the event" />
        <span className="mono truncate">{trigger.event_name}</span>
      </span>
    );
  }
  return (
    <span className={styles.when} title={`${trigger.cron_expr ?? ""} ${trigger.zone}`}>
      <Clock size={12} aria-label="at the times" />
      <span className="mono">{trigger.cron_expr}</span>
      <span className="quiet truncate">{trigger.zone}</span>
    </span>
  );
}

function Target({ trigger }: { trigger: Trigger }) {
  const { kind, name } = targetOf(trigger);
  return (
    <span className="truncate">
      <span className="quiet">{kind}</span> {name}
    </span>
  );
}

function LastFire({ trigger }: { trigger: Trigger }) {
  if (trigger.last_fire_at === null) return <span className="quiet">never</span>;
  return (
    <span className={styles.when}>
      {trigger.last_result !== null && <FireResult result={trigger.last_result} />}
      <Time at={trigger.last_fire_at} className="truncate" />
    </span>
  );
}
