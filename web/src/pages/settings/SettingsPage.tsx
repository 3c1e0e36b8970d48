import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Page } from "@/components/Page";
import { Tabs } from "@/components/Tabs";
import { MANAGERS, READERS, useCan, useSeesAll } from "@/session/session";
import { DefinitionsTab } from "./DefinitionsTab";
import { GrantsTab } from "./GrantsTab";
import { PoliciesTab } from "./PoliciesTab";
import { RetentionTab } from "./RetentionTab";
import type { TABS } from "./search";
import { SessionsTab } from "./SessionsTab";
import { SystemTab } from "./SystemTab";
import { TenantsTab } from "./TenantsTab";
import { TokensTab } from "./TokensTab";
import { WebhooksTab } from "./WebhooksTab";

type Key = (typeof TABS)[number];

/** Who may do what, for whom, and for how long things are kept. Each role sees the parts that it may read. */
export function SettingsPage() {
  const search = useSearch({ from: "/settings" });
  const navigate = useNavigate({ from: "/settings" });
  const manages = useCan(MANAGERS);
  const reads = useCan(READERS);
  const seesAll = useSeesAll();
  const tabs: { key: Key; label: string; content: () => ReactNode }[] = [
    ...(manages ? [{ key: "tokens" as const, label: "Tokens", content: () => <TokensTab /> }] : []),
    { key: "sessions", label: "Sessions", content: () => <SessionsTab /> },
    ...(seesAll ? [{ key: "tenants" as const, label: "Tenants", content: () => <TenantsTab /> }] : []),
    ...(seesAll ? [{ key: "definitions" as const, label: "Commands", content: () => <DefinitionsTab /> }] : []),
    ...(reads ? [{ key: "policies" as const, label: "Policies", content: () => <PoliciesTab /> }] : []),
    ...(reads ? [{ key: "retention" as const, label: "Retention", content: () => <RetentionTab /> }] : []),
    ...(reads ? [{ key: "webhooks" as const, label: "Webhooks", content: () => <WebhooksTab /> }] : []),
    ...(reads ? [{ key: "grants" as const, label: "Grants", content: () => <GrantsTab /> }] : []),
    ...(seesAll ? [{ key: "system" as const, label: "System", content: () => <SystemTab /> }] : []),
  ];
  const value = tabs.find((one) => one.key === search.tab)?.key ?? tabs[0]?.key ?? "sessions";
  return (
    <Page title="Settings">
      <Tabs
        label="Settings"
        value={value}
        onChange={(tab) => void navigate({ search: (before) => ({ ...before, tab, edit: undefined }) })}
        tabs={tabs}
      />
    </Page>
  );
}
