import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Pencil, Play } from "lucide-react";
import { useMemo, useState } from "react";
import { client } from "@/api/client";
import { Button } from "@/components/Button";
import { ConfirmDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { JsonView, TextView } from "@/components/JsonView";
import { Fact, Facts, Page, Section } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Tabs, type Tab } from "@/components/Tabs";
import { Time } from "@/components/Time";
import { useEdit } from "@/components/useEdit";
import { useShortcut } from "@/frame/shortcuts";
import { graphOfDefinition } from "@/graph/definition";
import { GraphView } from "@/graph/GraphView";
import { useChange } from "@/components/useChange";
import { PauseButton, PausedChip } from "@/pauses/PauseControls";
import { StartRunDialog } from "@/pages/runs/StartRunDialog";
import { JOB_MAKERS, MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { layOut } from "./layout";
import { Runs } from "./Runs";
import type { WorkflowTab } from "./search";
import { Versions } from "./Versions";
import { sumOf, useFieldOrder, useIsOwn, useRunCounts, useVersions, versionWord, type Workflow } from "./workflows";
import styles from "./Workflows.module.css";

/** One workflow: what it does in its newest version, and the versions before. */
export function WorkflowPage() {
  const { key } = useParams({ from: "/workflows/$key" });
  const versions = useVersions(key);
  const newest = versions.rows?.[0];
  if (newest !== undefined) return <Known workflow={newest} />;
  return (
    <Page title={key}>
      {versions.isError ? <ProblemView error={versions.error} onRetry={() => void versions.refetch()} /> : <Skeleton height={320} />}
    </Page>
  );
}

function Known({ workflow }: { workflow: Workflow }) {
  const { tab = "definition" } = useSearch({ from: "/workflows/$key" });
  const navigate = useNavigate({ from: "/workflows/$key" });
  const show = (next: WorkflowTab): void =>
    void navigate({ search: ({ tenant }) => ({ tenant, ...(next !== "definition" && { tab: next }) }), replace: true });
  const tabs: Tab<WorkflowTab>[] = [{ key: "definition", label: "Definition", content: () => <Definition workflow={workflow} /> }];
  if (workflow.kind === "declared")
    tabs.push({ key: "versions", label: "Versions", count: workflow.version, content: () => <Versions newest={workflow} /> });
  return (
    <Page title={workflow.key} about={<About workflow={workflow} />} actions={<Actions workflow={workflow} />}>
      {workflow.description !== "" && <p>{workflow.description}</p>}
      <Tabs label="Parts of the workflow" value={tabs.some((one) => one.key === tab) ? tab : "definition"} onChange={show} tabs={tabs} />
    </Page>
  );
}

function About({ workflow }: { workflow: Workflow }) {
  return (
    <>
      <span className="quiet">
        {versionWord(workflow.version)}
        {workflow.tenant_id === null && ", for all tenants"}
      </span>
      {!workflow.is_enabled && <StatusChip status="disabled" />}
      <PausedChip kind="workflow" target={workflow.key} />
    </>
  );
}

function Actions({ workflow }: { workflow: Workflow }) {
  const { key, kind } = workflow;
  const navigate = useNavigate({ from: "/workflows/$key" });
  const manages = useCan(MANAGERS);
  const makes = useCan(JOB_MAKERS);
  const isOwn = useIsOwn(workflow);
  const [asked, setAsked] = useState<"start" | "switch" | null>(null);
  const edit = (): void => void navigate({ to: "/workflows/$key/edit", params: { key }, search: ({ tenant }) => ({ tenant }) });
  const edits = manages && kind === "declared";
  useShortcut("e", "Edit the workflow", edit, edits);
  const close = (): void => setAsked(null);
  return (
    <>
      <PauseButton kind="workflow" target={key} name={key} />
      {manages && isOwn && <Button onClick={() => setAsked("switch")}>{workflow.is_enabled ? "Disable" : "Enable"}</Button>}
      {makes && workflow.is_enabled && (
        <Button icon={<Play size={14} aria-hidden />} onClick={() => setAsked("start")}>
          Start a run
        </Button>
      )}
      {edits && (
        <Button kind="primary" icon={<Pencil size={14} aria-hidden />} onClick={edit}>
          Edit
        </Button>
      )}
      {asked === "start" && (
        <StartRunDialog
          first={key}
          onClose={close}
          onStarted={(runId) => void navigate({ to: "/runs/$runId", params: { runId }, search: ({ tenant }) => ({ tenant }) })}
        />
      )}
      {asked === "switch" && <SwitchDialog workflow={workflow} onClose={close} />}
    </>
  );
}

function SwitchDialog({ workflow, onClose }: { workflow: Workflow; onClose: () => void }) {
  const tenant = useTenant();
  const { key, is_enabled: isOn } = workflow;
  const versions = useVersions(key);
  const edit = useEdit(workflow);
  const change = useChange(
    async (is_enabled: boolean) => {
      const params = { path: { key }, query: { tenant } };
      await edit({
        body: { is_enabled },
        entity: { type: "workflow", id: key, tenant },
        read: () => client.GET("/api/v1/workflows/{key}", { params }),
        write: (body, headers) => client.PATCH("/api/v1/workflows/{key}", { params, body, headers }),
      });
      await versions.refetch();
    },
    { done: (on) => `${key} is ${on ? "enabled" : "disabled"}`, lists: [], onDone: onClose },
  );
  return (
    <ConfirmDialog
      onClose={onClose}
      title={isOn ? `Disable ${key}?` : `Enable ${key}?`}
      description={
        isOn
          ? "No new runs start, in any version. Runs that have started continue."
          : "New runs can start again. Requests that were blocked meanwhile stay blocked."
      }
      action={isOn ? "Disable" : "Enable"}
      danger={isOn}
      busy={change.isPending}
      error={change.error}
      onConfirm={() => change.mutate(!isOn)}
    />
  );
}

function Definition({ workflow }: { workflow: Workflow }) {
  const counts = sumOf(useRunCounts(), workflow.key);
  return (
    <div className={styles.definition}>
      <Facts>
        <Fact name="Recent runs">
          <Link to="/runs" search={({ tenant }) => ({ tenant, workflow: workflow.key })} className={styles.counts}>
            {counts.total === 0 ? "Show its runs" : <Runs sum={counts} />}
          </Link>
        </Fact>
        <Fact name={workflow.kind === "code" ? "Last seen in a worker" : "Published"}>
          <Time at={workflow.kind === "code" ? workflow.last_seen_at : workflow.created_at} />
        </Fact>
        <Fact name="By">
          <span title={workflow.created_by}>{workflow.kind === "code" ? "a worker" : workflow.created_by}</span>
        </Fact>
      </Facts>
      {workflow.document === null ? <InCode workflow={workflow} /> : <Drawn document={workflow.document} />}
    </div>
  );
}

/** The graph of a document beside its text. */
function Drawn({ document }: { document: unknown }) {
  const graph = useMemo(() => graphOfDefinition(document), [document]);
  const order = useFieldOrder();
  return (
    <div className={styles.sides}>
      <Section title="Graph">
        <div className={styles.whole}>
          <GraphView label="Steps of the workflow" {...graph} />
        </div>
      </Section>
      <Section title="JSON">
        <TextView label="The definition as JSON" text={layOut(document, order)} />
      </Section>
    </div>
  );
}

function InCode({ workflow }: { workflow: Workflow }) {
  const hasSchema = Object.keys(workflow.input_schema).length > 0;
  return (
    <>
      {hasSchema && (
        <Section title="Input">
          <JsonView label="input schema" value={workflow.input_schema} />
        </Section>
      )}
      <EmptyState
        title="This workflow is defined in code"
        action={
          <Link to="/runs" search={({ tenant }) => ({ tenant, workflow: workflow.key })}>
            Show its runs
          </Link>
        }
      >
        Workers publish it when they start. Its steps are not known in advance; each run shows the steps that it executed.
      </EmptyState>
    </>
  );
}
