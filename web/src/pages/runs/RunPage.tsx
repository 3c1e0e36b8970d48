import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Schemas } from "@/api/client";
import { EmptyState } from "@/components/EmptyState";
import { Id } from "@/components/Id";
import { JsonView } from "@/components/JsonView";
import { Fact, Facts, Page } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Tabs, type Tab } from "@/components/Tabs";
import { Duration, Time } from "@/components/Time";
import { useNarrow } from "@/components/useNarrow";
import { whole } from "@/format/numbers";
import { spaced } from "@/format/words";
import { Compare } from "./Compare";
import { RunActions } from "./RunActions";
import { RunExplanation } from "./RunExplanation";
import styles from "./Runs.module.css";
import { RunGraph } from "./RunGraph";
import type { ListedStep, Run } from "./model";
import { useRun, useWholeRuns } from "./runs";
import type { RunSearch, RunTab } from "./search";
import { hasEnded } from "./states";
import { Steps } from "./Steps";

/** One run: what it waits for, its steps, what went in and came out. */
export function RunPage() {
  const { runId } = useParams({ from: "/runs/$runId" });
  const { run, intent, missing } = useRun(runId);
  if (run.data !== undefined) return <Known run={run.data} />;
  if (missing && intent.data !== undefined) return <Requested intent={intent.data} />;
  const error = missing ? intent.error : run.error;
  return (
    <Page title="Workflow run" about={<Id value={runId} whole />}>
      {error === null ? <Skeleton height={240} /> : <ProblemView error={error} onRetry={() => void run.refetch()} />}
    </Page>
  );
}

function Known({ run }: { run: Run }) {
  const narrow = useNarrow();
  const { tab: chosen, step, with: other } = useSearch({ from: "/runs/$runId" });
  const navigate = useNavigate({ from: "/runs/$runId" });
  const { known, first } = useWholeRuns([run.id]);
  const steps = known.get(run.id)?.steps ?? [];
  const awaited = steps.find((one) => one.status === "waiting" && one.event_name !== null)?.event_name ?? undefined;
  const set = (changes: RunSearch): void => void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  const onSelect = (id: string | undefined): void => set({ step: id });
  // On a phone the list comes first, and the graph has a tab of its own.
  const tab = chosen === undefined || (chosen === "events" && !narrow) ? (narrow ? "events" : "graph") : chosen;
  const both: Tab<RunTab>[] = narrow
    ? [
        { key: "events", label: "Events", content: () => <RunGraph run={run} selected={step} onSelect={onSelect} show="events" /> },
        { key: "graph", label: "Graph", content: () => <RunGraph run={run} selected={step} onSelect={onSelect} show="graph" /> },
      ]
    : [
        {
          key: "graph",
          label: "Graph",
          count: first?.isSuccess === true ? steps.length : undefined,
          content: () => <RunGraph run={run} selected={step} onSelect={onSelect} show="both" />,
        },
      ];
  return (
    <Page
      title={run.workflow}
      fill
      about={
        <>
          <StatusChip status={run.status} />
          <Id value={run.id} whole={!narrow} />
        </>
      }
      actions={<RunActions run={run} awaited={awaited} />}
    >
      <Answer run={run} />
      <RunFacts run={run} />
      <Tabs
        label="About the run"
        fill
        value={tab}
        onChange={(next) => set({ tab: next })}
        tabs={[
          ...both,
          {
            key: "timeline",
            label: "Timeline",
            content: () => (
              <Scrolled>
                <Timeline run={run} steps={first?.data?.steps} open={step} onOpen={onSelect} />
              </Scrolled>
            ),
          },
          {
            key: "input",
            label: "Input",
            content: () => (
              <Scrolled>
                <JsonView label="input" value={run.input} />
              </Scrolled>
            ),
          },
          {
            key: "output",
            label: run.status === "failed" ? "Error" : "Output",
            content: () => (
              <Scrolled>
                <JsonView label="output" value={run.status === "failed" ? run.error : run.output} />
              </Scrolled>
            ),
          },
          {
            key: "compare",
            label: "Compare",
            content: () => (
              <Compare run={run} other={other} onOther={(id) => set({ with: id, step: undefined })} step={step} onStep={onSelect} />
            ),
          },
        ]}
      />
    </Page>
  );
}

function Scrolled({ children }: { children: ReactNode }) {
  return <div className={styles.scrolled}>{children}</div>;
}

function Timeline({
  run,
  steps,
  open,
  onOpen,
}: {
  run: Run;
  steps: readonly ListedStep[] | undefined;
  open: string | undefined;
  onOpen: (key: string | undefined) => void;
}) {
  if (steps === undefined) return <Skeleton height={160} />;
  if (steps.length === 0) return <EmptyState title="No step is recorded yet" />;
  return <Steps run={run} steps={steps} open={open} onOpen={onOpen} />;
}

/** In one sentence: how the run ended, or why it does not go on. */
function Answer({ run }: { run: Run }) {
  return hasEnded(run) ? <p className={styles.answer}>{ending(run)}</p> : <RunExplanation runId={run.id} status={run.status} />;
}

function ending(run: Run): ReactNode {
  if (run.status === "canceled") return "Canceled. Completed steps are not undone.";
  if (run.status === "failed") {
    const message = run.error["message"];
    return `It failed: ${typeof message === "string" ? message : "the tab Error says why."}`;
  }
  return (
    <>
      It succeeded after <Duration from={run.created_at} to={run.finished_at} />.
    </>
  );
}

/** What else is known of a run, in a line. */
function RunFacts({ run }: { run: Run }) {
  return (
    <dl className={styles.facts}>
      <RunFact name="requested by">{run.requested_by}</RunFact>
      <RunFact name="created">
        <Time at={run.created_at} />
      </RunFact>
      <RunFact name={run.finished_at === null ? "running for" : "took"}>
        <Duration from={run.created_at} to={run.finished_at} />
      </RunFact>
      <RunFact name="version">{run.version === 0 ? "in code" : run.version}</RunFact>
      <RunFact name="attempts">{whole(run.attempt_count)}</RunFact>
      <RunFact name="source">{run.source_ref === null ? run.source : `${run.source} ${run.source_ref}`}</RunFact>
      {run.correlation_id !== null && (
        <RunFact name="correlation">
          <Id value={run.correlation_id} />
        </RunFact>
      )}
      {run.parent_run_id !== null && (
        <RunFact name="part of">
          <RunLink id={run.parent_run_id} />
        </RunFact>
      )}
      {run.forked_from !== null && (
        <RunFact name="forked from">
          <RunLink id={run.forked_from} />
        </RunFact>
      )}
    </dl>
  );
}

function RunFact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className={styles.fact}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function RunLink({ id }: { id: string }) {
  return (
    <Link to="/runs/$runId" params={{ runId: id }} search={({ tenant }) => ({ tenant })}>
      <Id value={id} />
    </Link>
  );
}

/** A request that has not become a run: policy has not decided, holds it for review, or has refused it. */
function Requested({ intent }: { intent: Schemas["Intent"] }) {
  return (
    <Page
      title={intent.workflow}
      about={
        <>
          <StatusChip status={intent.status === "awaiting_human" ? "waiting" : intent.status} label={spaced(intent.status)} />
          <Id value={intent.id} whole />
        </>
      }
    >
      <RunExplanation runId={intent.id} status={intent.status} />
      <Facts>
        <Fact name="Requested by">{intent.requested_by}</Fact>
        <Fact name="Created">
          <Time at={intent.created_at} />
        </Fact>
        <Fact name="Source">{intent.source}</Fact>
      </Facts>
      <h2>Input</h2>
      <JsonView label="input" value={intent.input} />
    </Page>
  );
}
