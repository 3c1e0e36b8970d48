import { useNavigate, useSearch } from "@tanstack/react-router";
import { CalendarPlus } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Page } from "@/components/Page";
import { Tabs } from "@/components/Tabs";
import { MANAGERS, useCan } from "@/session/session";
import { EventList } from "./EventList";
import { RecurringList } from "./RecurringList";
import type { SchedulesSearch } from "./search";
import { TriggerDialog } from "./TriggerDialog";
import { TriggerList } from "./TriggerList";

/** What starts work by itself: triggers by time and by event, the events that came, and functions that recur. */
export function SchedulesPage() {
  const search = useSearch({ from: "/schedules" });
  const navigate = useNavigate({ from: "/schedules" });
  const may = useCan(MANAGERS);
  const [adding, setAdding] = useState(false);
  const tab = search.tab ?? "triggers";
  const show = (change: Partial<SchedulesSearch>): void => void navigate({ search: (before) => ({ ...before, ...change }) });
  const add = (): void => setAdding(true);
  return (
    <Page
      title="Schedules"
      fill
      actions={
        may && (
          <Button kind="primary" icon={<CalendarPlus size={14} aria-hidden />} onClick={add}>
            New trigger
          </Button>
        )
      }
    >
      <Tabs
        label="Schedules"
        value={tab}
        onChange={(next) => show({ tab: next, trigger: undefined, event: undefined, recurring: undefined })}
        tabs={[
          {
            key: "triggers",
            label: "Triggers",
            content: () => <TriggerList open={search.trigger} onOpen={(trigger) => show({ trigger })} onAdd={add} />,
          },
          { key: "events", label: "Events", content: () => <EventList search={search} onChange={show} /> },
          {
            key: "recurring",
            label: "Recurring functions",
            content: () => <RecurringList open={search.recurring} onOpen={(recurring) => show({ recurring })} />,
          },
        ]}
      />
      {adding && (
        <TriggerDialog
          onClose={() => setAdding(false)}
          onSaved={(trigger) => {
            setAdding(false);
            show({ tab: "triggers", trigger: trigger.id });
          }}
        />
      )}
    </Page>
  );
}
