import { Page } from "@/components/Page";

export function SchedulesPage() {
  return <Page title="Schedules">{null}</Page>;
}
