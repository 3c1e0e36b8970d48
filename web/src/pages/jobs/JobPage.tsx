import { Page } from "@/components/Page";

export function JobPage() {
  return <Page title="Job">{null}</Page>;
}
