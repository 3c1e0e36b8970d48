import { Page } from "@/components/Page";

export function WorkersPage() {
  return <Page title="Workers">{null}</Page>;
}
