import { Page } from "@/components/Page";

export function RunPage() {
  return <Page title="Run">{null}</Page>;
}
