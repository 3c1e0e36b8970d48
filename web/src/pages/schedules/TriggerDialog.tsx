import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useDeferredValue, useId, useState } from "react";
import { api, client } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { Problem } from "@/api/problem";
import { ConfirmDialog } from "@/components/Dialog";
import { Field, Input, Select, TextArea } from "@/components/Form";
import { Skeleton } from "@/components/Skeleton";
import { useToast } from "@/components/Toast";
import { useTenantField } from "@/session/useTenantField";
import { draftOf, readDraft, type Draft } from "./draft";
import { NextTimes } from "./NextTimes";
import styles from "./schedules.module.css";
import { useSaveTrigger, type Trigger } from "./triggers";

interface TriggerDialogProps {
  /** The trigger to change; a new one without it. */
  trigger?: Trigger;
  onClose: () => void;
  onSaved: (trigger: Trigger) => void;
}

/** Adds or changes a trigger, and shows its next times while they are typed. */
export function TriggerDialog({ trigger, onClose, onSaved }: TriggerDialogProps) {
  const [draft, setDraft] = useState<Draft>(() => draftOf(trigger));
  const { tenant: chosen, isMissing, field } = useTenantField();
  const tenant = trigger?.tenant_id ?? chosen;
  const save = useSaveTrigger(trigger, tenant);
  const toast = useToast();
  const set = (change: Partial<Draft>): void => setDraft((before) => ({ ...before, ...change }));
  const body = readDraft(draft);
  const reasonOf = (field: string): string | undefined => (save.error instanceof Problem ? save.error.reasonOf(field) : undefined);
  const submit = (): void => {
    if (body === null) return;
    save.mutate(body, {
      onSuccess: (saved) => {
        if (saved === undefined) return;
        toast(`${saved.label} is ${trigger === undefined ? "added" : "changed"}`);
        onSaved(saved);
      },
    });
  };
  return (
    <ConfirmDialog
      wide
      onClose={onClose}
      title={trigger === undefined ? "New trigger" : `Change ${trigger.label}`}
      description="Starts a job, command or workflow on a schedule or on an event."
      action={trigger === undefined ? "Add trigger" : "Save"}
      busy={save.isPending}
      error={save.error}
      disabled={body === null || draft.label.trim() === "" || draft.target.trim() === "" || (trigger === undefined && isMissing)}
      onConfirm={submit}
    >
      {trigger === undefined && field}
      <Field label="Name" required error={reasonOf("label")}>
        {(control) => (
          <Input
            {...control}
            value={draft.label}
            maxLength={200}
            placeholder="Morning report"
            onChange={(event) => set({ label: event.target.value })}
          />
        )}
      </Field>
      <Field label="Fires">
        {(control) => (
          <Select {...control} value={draft.type} onChange={(event) => set({ type: event.target.value as Draft["type"] })}>
            <option value="schedule">on a schedule</option>
            <option value="event">on an event</option>
          </Select>
        )}
      </Field>
      {draft.type === "schedule" ? (
        <ScheduleFields draft={draft} set={set} reasonOf={reasonOf} tenant={tenant} />
      ) : (
        <EventFields draft={draft} set={set} reasonOf={reasonOf} />
      )}
      <TargetFields draft={draft} set={set} reasonOf={reasonOf} tenant={tenant} />
      <Field
        label="Input"
        hint="A JSON object. {{ event.… }} and {{ fire.due_at }} are filled in."
        error={body === null ? "Not a JSON object." : reasonOf("payload_template")}
      >
        {(control) => (
          <TextArea {...control} className="mono" value={draft.template} onChange={(event) => set({ template: event.target.value })} />
        )}
      </Field>
    </ConfirmDialog>
  );
}

interface FieldsProps {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  reasonOf: (field: string) => string | undefined;
}

function ScheduleFields({ draft, set, reasonOf, tenant }: FieldsProps & { tenant: string | undefined }) {
  const zones = useId();
  return (
    <>
      <div className={styles.pair}>
        <Field label="Cron expression" required hint="Minute, hour, day, month, weekday." error={reasonOf("cron_expr")}>
          {(control) => (
            <Input
              {...control}
              className="mono"
              value={draft.cron}
              placeholder="0 7 * * 1-5"
              onChange={(event) => set({ cron: event.target.value })}
            />
          )}
        </Field>
        <Field label="Time zone" hint="The tenant's own if empty." error={reasonOf("timezone")}>
          {(control) => (
            <Input
              {...control}
              list={zones}
              value={draft.zone}
              placeholder="Europe/Berlin"
              onChange={(event) => set({ zone: event.target.value })}
            />
          )}
        </Field>
        <datalist id={zones}>
          {Intl.supportedValuesOf("timeZone").map((zone) => (
            <option key={zone} value={zone} />
          ))}
        </datalist>
      </div>
      <Preview cron={draft.cron} zone={draft.zone} tenant={tenant} />
      <Field label="Misfire policy" hint="For times missed while Atlas was offline or no scheduler ran.">
        {(control) => (
          <Select {...control} value={draft.misfire} onChange={(event) => set({ misfire: event.target.value as Draft["misfire"] })}>
            <option value="latest">fire once, for the latest</option>
            <option value="skip">skip them</option>
            <option value="all">fire for each</option>
          </Select>
        )}
      </Field>
    </>
  );
}

/** The next times of the schedule as it is typed; the server computes them, as it will when it is saved. */
function Preview({ cron, zone, tenant }: { cron: string; zone: string; tenant: string | undefined }) {
  const typed = useDeferredValue(cron.trim());
  const query = useQuery({
    queryKey: ["preview", tenant, typed, zone.trim()],
    enabled: typed !== "",
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 60_000,
    queryFn: async ({ signal }) => {
      // Each key that is pressed asks anew: the last one within a quarter of a second is sent.
      await new Promise((resolve) => setTimeout(resolve, 250));
      signal.throwIfAborted();
      const body = { cron_expr: typed, timezone: zone.trim() === "" ? null : zone.trim(), count: 5 };
      return (await client.POST("/api/v1/jobs/triggers/preview", { params: { query: { tenant } }, body, signal })).data?.items ?? [];
    },
  });
  return (
    <div className={styles.preview} aria-live="polite" aria-label="Next times">
      {typed === "" ? (
        <p className="quiet">The next times appear here.</p>
      ) : query.error !== null ? (
        <p className="quiet">{query.error.message}</p>
      ) : query.data === undefined ? (
        <Skeleton width="60%" />
      ) : (
        <NextTimes times={query.data} />
      )}
    </div>
  );
}

function EventFields({ draft, set, reasonOf }: FieldsProps) {
  return (
    <div className={styles.pair}>
      <Field label="Event" required error={reasonOf("event_name")}>
        {(control) => (
          <Input
            {...control}
            className="mono"
            value={draft.event}
            placeholder="invoice.paid"
            onChange={(event) => set({ event: event.target.value })}
          />
        )}
      </Field>
      <Field
        label="Dedupe window in seconds"
        hint="The same input fires once in this time. 0: no deduplication."
        error={reasonOf("dedupe_window_seconds")}
      >
        {(control) => (
          <Input
            {...control}
            type="number"
            min={0}
            max={2_592_000}
            value={draft.window}
            onChange={(event) => set({ window: event.target.value })}
          />
        )}
      </Field>
    </div>
  );
}

const KINDS = { job_type: "job", definition_key: "command", workflow: "workflow" } as const;

function TargetFields({ draft, set, reasonOf, tenant }: FieldsProps & { tenant: string | undefined }) {
  const names = useId();
  const query = { limit: MAX_LISTED };
  const types = api
    .useQuery("get", "/api/v1/job-types", { params: { query } }, { enabled: draft.kind === "job_type" })
    .data?.items.map((one) => one.key);
  const keys = api
    .useQuery("get", "/api/v1/admin/jobs/definitions", { params: { query } }, { enabled: draft.kind === "definition_key", retry: false })
    .data?.items.map((one) => one.key);
  const workflows = api
    .useQuery("get", "/api/v1/workflows", { params: { query: { tenant, ...query } } }, { enabled: draft.kind === "workflow" })
    .data?.items.map((one) => one.key);
  const known = { job_type: types, definition_key: keys, workflow: workflows }[draft.kind] ?? [];
  return (
    <div className={styles.pair}>
      <Field label="Starts a">
        {(control) => (
          <Select {...control} value={draft.kind} onChange={(event) => set({ kind: event.target.value as Draft["kind"], target: "" })}>
            {Object.entries(KINDS).map(([key, word]) => (
              <option key={key} value={key}>
                {word}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label={`Name of the ${KINDS[draft.kind]}`} required error={reasonOf(draft.kind)}>
        {(control) => (
          <>
            <Input
              {...control}
              list={names}
              className="mono"
              value={draft.target}
              onChange={(event) => set({ target: event.target.value })}
            />
            <datalist id={names}>
              {known.map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
    </div>
  );
}
