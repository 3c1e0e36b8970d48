import { Page } from "@/components/Page";

export function OverviewPage() {
  return <Page title="Overview">{null}</Page>;
}
