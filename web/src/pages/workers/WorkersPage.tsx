import { useNavigate, useSearch } from "@tanstack/react-router";
import { Page } from "@/components/Page";
import { Tabs } from "@/components/Tabs";
import { useSeesAll } from "@/session/session";
import { HostList } from "./HostList";
import { WorkerList } from "./WorkerList";

/** The processes that run jobs, and the machines that fetch their own. A tenant sees its hosts: workers serve all tenants. */
export function WorkersPage() {
  const search = useSearch({ from: "/workers" });
  const navigate = useNavigate({ from: "/workers" });
  const seesAll = useSeesAll();
  const show = (change: Partial<typeof search>): void => void navigate({ search: (before) => ({ ...before, ...change }) });
  const hosts = <HostList open={search.host} onOpen={(host) => show({ host })} />;
  return (
    <Page title={seesAll ? "Workers" : "Hosts"} fill>
      {seesAll ? (
        <Tabs
          label="Workers and hosts"
          value={search.tab ?? "workers"}
          onChange={(tab) => show({ tab, worker: undefined, host: undefined })}
          tabs={[
            { key: "workers", label: "Workers", content: () => <WorkerList open={search.worker} onOpen={(worker) => show({ worker })} /> },
            { key: "hosts", label: "Hosts", content: () => hosts },
          ]}
        />
      ) : (
        hosts
      )}
    </Page>
  );
}
