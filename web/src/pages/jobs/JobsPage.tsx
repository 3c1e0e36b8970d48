import { Page } from "@/components/Page";

export function JobsPage() {
  return <Page title="Jobs">{null}</Page>;
}
