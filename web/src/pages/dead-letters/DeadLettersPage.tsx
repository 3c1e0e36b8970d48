import { Page } from "@/components/Page";

export function DeadLettersPage() {
  return <Page title="Dead letters">{null}</Page>;
}
