import { useParams } from "@tanstack/react-router";
import { EmptyState } from "@/components/EmptyState";
import { Page } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { api } from "@/api/client";
import { MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { layOut } from "./layout";
import { useFieldOrder, useVersions } from "./workflows";
import { Workbench } from "./Workbench";

const FIRST = {
  key: "my-workflow",
  description: "Says hello by mail.",
  inputSchema: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
  steps: [{ id: "mail", job: "EMAIL_SEND", with: { to: "{{ input.to }}", subject: "Hello", text: "It works." } }],
};

/** The editor of a workflow that does not exist yet. */
export function NewWorkflowPage() {
  const tenant = useTenant();
  const order = useFieldOrder();
  if (!useCan(MANAGERS)) return <NotForRole title="New workflow" />;
  if (order.document.length === 0) return <Loading title="New workflow" />;
  return <Workbench key={tenant} tenant={tenant} base={null} text={layOut(FIRST, order)} />;
}

/** The editor of a declared workflow. */
export function EditPage() {
  const { key } = useParams({ from: "/workflows/$key/edit" });
  const tenant = useTenant();
  const order = useFieldOrder();
  const schema = api.useQuery("get", "/api/v1/workflow-schema", {});
  const versions = useVersions(key);
  const newest = versions.rows?.[0];
  const title = `Edit ${key}`;
  const manages = useCan(MANAGERS);
  if (!manages) return <NotForRole title={title} />;
  if (versions.isError || schema.isError)
    return <Page title={title}>{<ProblemView error={versions.error ?? schema.error} onRetry={() => void versions.refetch()} />}</Page>;
  if (newest === undefined || order.document.length === 0) return <Loading title={title} />;
  if (newest.document === null)
    return (
      <Page title={title}>
        {
          <EmptyState title="This workflow is defined in code">
            Change the function in the code of its workers, and restart them.
          </EmptyState>
        }
      </Page>
    );
  return <Workbench key={`${tenant ?? ""} ${key}`} tenant={tenant} base={newest} text={layOut(newest.document, order)} />;
}

function Loading({ title }: { title: string }) {
  return (
    <Page title={title}>
      <Skeleton height={420} />
    </Page>
  );
}

function NotForRole({ title }: { title: string }) {
  return (
    <Page title={title}>
      <EmptyState title="Your role may not do this">Workflows are published by operators and tenant admins.</EmptyState>
    </Page>
  );
}
