import { Page } from "@/components/Page";

export function OutboxPage() {
  return <Page title="Outbox">{null}</Page>;
}
