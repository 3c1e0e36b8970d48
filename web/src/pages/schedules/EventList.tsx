import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { ChangeDialog, SidePanel } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { FilterChip, TextFilter } from "@/components/FilterChips";
import { Field, TextArea, TextField } from "@/components/Form";
import { Id } from "@/components/Id";
import { JsonView } from "@/components/JsonView";
import { Fact, Facts, Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { plural } from "@/format/numbers";
import { useChange } from "@/components/useChange";
import { JOB_MAKERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useTenantField } from "@/session/useTenantField";
import { useWithTenant } from "@/session/tenantColumn";
import { readObject } from "@/format/json";
import styles from "./schedules.module.css";
import type { SchedulesSearch } from "./search";

type Event = Schemas["EventRecord"];

const COLUMNS: readonly Column<Event>[] = [
  { key: "at", header: "When", width: "104px", cell: (one) => <Time at={one.created_at} /> },
  { key: "name", header: "Event", width: "minmax(140px, 2fr)", text: (one) => one.name, look: "mono" },
  { key: "by", header: "By", width: "minmax(120px, 1fr)", wideOnly: true, text: (one) => one.created_by },
  {
    key: "to",
    header: "To",
    width: "minmax(120px, 1fr)",
    wideOnly: true,
    cell: (one) => (one.run_id === null ? <span className="quiet">all waiting runs</span> : <Id value={one.run_id} />),
  },
  {
    key: "correlation",
    header: "Correlation",
    width: "minmax(120px, 1fr)",
    wideOnly: true,
    text: (one) => one.correlation_id,
    look: "id",
  },
];

/** The events that came, newest first. */
export function EventList({ search, onChange }: { search: SchedulesSearch; onChange: (change: Partial<SchedulesSearch>) => void }) {
  const tenant = useTenant();
  const may = useCan(JOB_MAKERS);
  const [publishing, setPublishing] = useState(false);
  const pages = useList("/api/v1/events", { tenant, name: search.name }, { refetchInterval: 5000 });
  const columns = useWithTenant(COLUMNS, pages.rows);
  const open = pages.rows?.find((one) => one.id === search.event);
  const publish = may && <Button onClick={() => setPublishing(true)}>Publish an event</Button>;
  return (
    <>
      <div className={styles.line}>
        {search.name === undefined ? (
          <TextFilter label="Name" placeholder="invoice.*" onSet={(name) => onChange({ name })} />
        ) : (
          <FilterChip name="name" value={search.name} onRemove={() => onChange({ name: undefined })} />
        )}
        <span className={styles.right}>{publish}</span>
      </div>
      <DataTable
        label="Events"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={pages}
        onOpen={(one) => onChange({ event: one.id })}
        openKey={search.event}
        empty={
          search.name === undefined ? (
            <EmptyState title="No events yet" command={"atlas event publish invoice.paid --context '{\"invoice\": 4711}'"}>
              An event wakes the workflow runs that wait for it and fires the triggers on its name.
            </EmptyState>
          ) : (
            <EmptyState
              title={`No events named ${search.name}`}
              action={<Button onClick={() => onChange({ name: undefined })}>Clear the filter</Button>}
            />
          )
        }
      />
      {open !== undefined && <EventPanel event={open} onClose={() => onChange({ event: undefined })} />}
      {publishing && <PublishDialog onClose={() => setPublishing(false)} />}
    </>
  );
}

function EventPanel({ event, onClose }: { event: Event; onClose: () => void }) {
  return (
    <SidePanel title={event.name} onClose={onClose}>
      <div className={styles.stack}>
        <Facts>
          <Fact name="Published">
            <Time at={event.created_at} />
          </Fact>
          <Fact name="By">{event.created_by}</Fact>
          <Fact name="Triggers evaluated">{event.handled_at === null ? "not yet" : <Time at={event.handled_at} />}</Fact>
          {event.run_id !== null && (
            <Fact name="Sent to the run">
              <Link to="/runs/$runId" params={{ runId: event.run_id }}>
                <Id value={event.run_id} />
              </Link>
            </Fact>
          )}
          {event.correlation_id !== null && <Fact name="Correlation">{event.correlation_id}</Fact>}
          <Fact name="Id">
            <Id value={event.id} />
          </Fact>
        </Facts>
        <Section title="Context">
          <JsonView value={event.context} label="the context" />
        </Section>
      </div>
    </SidePanel>
  );
}

function PublishDialog({ onClose }: { onClose: () => void }) {
  const { tenant, isMissing, field } = useTenantField();
  const [name, setName] = useState("");
  const [text, setText] = useState("{}");
  const context = readObject(text);
  const publish = useChange(
    async () =>
      (await client.POST("/api/v1/events", { params: { query: { tenant } }, body: { name: name.trim(), context: context ?? {} } })).data,
    {
      done: (_, published) => `${name.trim()} is published; ${plural(published?.woken ?? 0, "run")} resumed`,
      lists: ["/api/v1/events"],
      onDone: onClose,
    },
  );
  return (
    <ChangeDialog
      onClose={onClose}
      title="Publish an event"
      description="Wakes waiting runs and fires matching triggers."
      action="Publish"
      change={publish}
      disabled={name.trim() === "" || context === null || isMissing}
    >
      {field}
      <TextField label="Name" required className="mono" value={name} placeholder="invoice.paid" onChange={setName} />
      <Field label="Context" hint="A JSON object." error={context === null ? "Not a JSON object." : undefined}>
        {(control) => <TextArea {...control} className="mono" value={text} onChange={(event) => setText(event.target.value)} />}
      </Field>
    </ChangeDialog>
  );
}
