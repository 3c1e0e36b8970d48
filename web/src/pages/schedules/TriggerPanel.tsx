import { keepPreviousData } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Pencil, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { api } from "@/api/client";
import { useList } from "@/api/pages";
import { Action, Button, IconButton } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { ConfirmDialog, SidePanel } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Explanation } from "@/components/Explanation";
import { Switch } from "@/components/Form";
import { Id } from "@/components/Id";
import { JsonView } from "@/components/JsonView";
import { Fact, Facts, Section } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { useToast } from "@/components/Toast";
import { plural } from "@/format/numbers";
import { PauseButton } from "@/pauses/PauseControls";
import { MANAGERS, useCan } from "@/session/session";
import { FireDialog } from "./FireDialog";
import { FireResult } from "./FireResult";
import { NextTimes } from "./NextTimes";
import styles from "./schedules.module.css";
import { TriggerDialog } from "./TriggerDialog";
import { targetOf, useEnableTrigger, useRemoveTrigger, type Fire, type Trigger } from "./triggers";

/** One trigger: why it does not fire, when it is due next, and what came of it. */
export function TriggerPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const path = { trigger_id: id };
  const query = api.useQuery(
    "get",
    "/api/v1/jobs/triggers/{trigger_id}",
    { params: { path } },
    { meta: { live: ["trigger"] }, refetchInterval: 30_000 },
  );
  const trigger = query.data;
  return (
    <SidePanel
      title={trigger?.label ?? "Trigger"}
      onClose={onClose}
      actions={trigger !== undefined && <Actions trigger={trigger} onRemoved={onClose} />}
    >
      {trigger !== undefined ? (
        <Details trigger={trigger} />
      ) : query.isError ? (
        <ProblemView error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Skeleton width="60%" />
      )}
    </SidePanel>
  );
}

type Open = "edit" | "fire" | "remove" | null;

function Actions({ trigger, onRemoved }: { trigger: Trigger; onRemoved: () => void }) {
  const may = useCan(MANAGERS);
  const toast = useToast();
  const enable = useEnableTrigger();
  const remove = useRemoveTrigger();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  if (!may) return null;
  return (
    <>
      <Switch
        on={trigger.is_enabled}
        disabled={enable.isPending}
        label={`${trigger.label} is enabled`}
        onChange={() => enable.mutate(trigger)}
      />
      <PauseButton kind="trigger" target={trigger.id} name={trigger.label} />
      <Button icon={<Play size={14} aria-hidden />} onClick={() => setOpen("fire")}>
        Fire now
      </Button>
      <IconButton label="Edit the trigger" onClick={() => setOpen("edit")}>
        <Pencil size={14} aria-hidden />
      </IconButton>
      <IconButton label="Remove the trigger" onClick={() => setOpen("remove")}>
        <Trash2 size={14} aria-hidden />
      </IconButton>
      {open === "fire" && <FireDialog trigger={trigger} onClose={close} />}
      {open === "edit" && <TriggerDialog trigger={trigger} onClose={close} onSaved={close} />}
      {open === "remove" && (
        <ConfirmDialog
          danger
          onClose={close}
          title={`Remove ${trigger.label}?`}
          description="It no longer fires. Jobs that it started continue, and its firing history is kept."
          action="Remove trigger"
          busy={remove.isPending}
          error={remove.error}
          onConfirm={() =>
            remove.mutate(trigger.id, {
              onSuccess: () => {
                toast(`${trigger.label} is removed`);
                onRemoved();
              },
            })
          }
        />
      )}
    </>
  );
}

function Details({ trigger }: { trigger: Trigger }) {
  const { kind, name } = targetOf(trigger);
  const params = { path: { trigger_id: trigger.id } };
  const why = api.useQuery(
    "get",
    "/api/v1/jobs/triggers/{trigger_id}/explain",
    { params },
    { refetchInterval: 10_000, meta: { live: ["atlas"] } },
  );
  const isSchedule = trigger.trigger_type === "schedule";
  return (
    <div className={styles.stack}>
      <Explanation found={why.data} />
      <Facts>
        <Fact name={isSchedule ? "At" : "On the event"}>
          <span className="mono">{isSchedule ? trigger.cron_expr : trigger.event_name}</span>
        </Fact>
        {isSchedule && <Fact name="Time zone">{trigger.zone}</Fact>}
        <Fact name={`Starts the ${kind}`}>{name}</Fact>
        {isSchedule && <Fact name="Misfire policy">{MISFIRES[trigger.misfire]}</Fact>}
        {trigger.dedupe_window_seconds > 0 && <Fact name="Dedupe window">{trigger.dedupe_window_seconds} s</Fact>}
        <Fact name="Created by">{trigger.declared_by === null ? trigger.created_by : `code of ${trigger.declared_by}`}</Fact>
        <Fact name="Changed">
          <Time at={trigger.updated_at} />
        </Fact>
        <Fact name="Id">
          <Id value={trigger.id} />
        </Fact>
      </Facts>
      {isSchedule && trigger.is_enabled && <Due trigger={trigger} />}
      <Section title="Input">
        <JsonView value={trigger.payload_template} label="the input that it gives" />
      </Section>
      <Section title="Firings">
        <Fires trigger={trigger} />
      </Section>
    </div>
  );
}

export const MISFIRES = { skip: "are skipped", latest: "fire once", all: "all fire" } as const;

const FEW_TIMES = 10;
const MANY_TIMES = 100;

function Due({ trigger }: { trigger: Trigger }) {
  const [count, setCount] = useState(FEW_TIMES);
  const params = { path: { trigger_id: trigger.id }, query: { count } };
  const query = api.useQuery(
    "get",
    "/api/v1/jobs/triggers/{trigger_id}/preview",
    { params },
    { refetchInterval: 60_000, placeholderData: keepPreviousData },
  );
  const times = query.data?.items;
  const changes = times?.filter((one) => one.note !== "").length ?? 0;
  return (
    <Section title="Next times">
      {times === undefined ? <Skeleton width="60%" /> : <NextTimes times={times} />}
      {times !== undefined && count > FEW_TIMES && (
        <p className="quiet">
          {plural(times.length, "time")}, {plural(changes, "of them touched by a clock change", "of them touched by clock changes")}
        </p>
      )}
      {count === FEW_TIMES && <Action onClick={() => setCount(MANY_TIMES)}>Show the next {MANY_TIMES}</Action>}
    </Section>
  );
}

const FIRES: readonly Column<Fire>[] = [
  { key: "result", header: "Result", width: "104px", cell: (one) => <FireResult result={one.result} /> },
  { key: "at", header: "Fired", width: "96px", cell: (one) => <Time at={one.fired_at} /> },
  { key: "started", header: "Started", width: "minmax(120px, 1fr)", cell: (one) => <Started fire={one} /> },
];

function Started({ fire }: { fire: Fire }) {
  if (fire.job_id === null)
    return (
      <span className="truncate" title={fire.error ?? ""}>
        {fire.error ?? "nothing"}
      </span>
    );
  return (
    <Link to="/jobs/$jobId" params={{ jobId: fire.job_id }}>
      <Id value={fire.job_id} />
    </Link>
  );
}

function Fires({ trigger }: { trigger: Trigger }) {
  const options = { path: { trigger_id: trigger.id }, live: ["trigger", "job"], refetchInterval: 30_000 };
  const pages = useList("/api/v1/jobs/triggers/{trigger_id}/fires", { limit: 20 }, options);
  return (
    <>
      <DataTable
        inline
        label="Firings"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={FIRES}
        query={pages}
        empty={<EmptyState title="Not fired yet" />}
      />
      {pages.hasNextPage && (
        <Button kind="ghost" busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          Show older firings
        </Button>
      )}
    </>
  );
}
