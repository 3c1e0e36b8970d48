import { Page } from "@/components/Page";

export function ApprovalsPage() {
  return <Page title="Approvals">{null}</Page>;
}
