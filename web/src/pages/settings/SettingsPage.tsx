import { Page } from "@/components/Page";

export function SettingsPage() {
  return <Page title="Settings">{null}</Page>;
}
