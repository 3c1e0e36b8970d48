import { Page } from "@/components/Page";

export function RunsPage() {
  return <Page title="Workflows">{null}</Page>;
}
