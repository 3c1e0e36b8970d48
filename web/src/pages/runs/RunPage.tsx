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
import { Tabs } from "@/components/Tabs";
import { Duration, Time } from "@/components/Time";
import { capitalized, spaced } from "@/format/words";
import { RunActions } from "./RunActions";
import styles from "./Runs.module.css";
import { type Run, type Step, useRun, useSteps } from "./runs";
import { Steps } from "./Steps";
import { waitsOf } from "./timeline";

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
  const { tab = "steps", step } = useSearch({ from: "/runs/$runId" });
  const navigate = useNavigate({ from: "/runs/$runId" });
  const steps = useSteps(run.id);
  const known = steps.rows ?? [];
  const awaited = known.find((one) => one.status === "waiting" && one.event_name !== null)?.event_name ?? undefined;
  return (
    <Page
      title={run.workflow}
      about={
        <>
          <StatusChip status={run.status} />
          <Id value={run.id} whole />
        </>
      }
      actions={<RunActions run={run} awaited={awaited} />}
    >
      <Answer run={run} steps={known} />
      <RunFacts run={run} />
      <Tabs
        label="About the run"
        value={tab}
        onChange={(next) => void navigate({ search: (before) => ({ ...before, tab: next }), replace: true })}
        tabs={[
          {
            key: "steps",
            label: "Steps",
            count: known.length,
            content: () =>
              steps.isError && known.length === 0 ? (
                <ProblemView error={steps.error} onRetry={() => void steps.refetch()} />
              ) : known.length === 0 ? (
                <EmptyState title={steps.isPending ? "Loading the steps" : "No step is recorded yet"} />
              ) : (
                <Steps run={run} steps={known} open={step} onOpen={(key) => void navigate({ search: (before) => ({ ...before, step: key }), replace: true })} />
              ),
          },
          { key: "input", label: "Input", content: () => <JsonView label="input" value={run.input} /> },
          { key: "output", label: run.status === "failed" ? "Error" : "Output", content: () => <JsonView label="output" value={run.status === "failed" ? run.error : run.output} /> },
        ]}
      />
    </Page>
  );
}

/** In one sentence: where the run is, and what it waits for. */
function Answer({ run, steps }: { run: Run; steps: readonly Step[] }) {
  return <p className={styles.answer}>{sentence(run, steps)}</p>;
}

function sentence(run: Run, steps: readonly Step[]): ReactNode {
  if (run.cancel_requested_at !== null && run.finished_at === null) return "It was asked to stop, and does so at its next step.";
  switch (run.status) {
    case "succeeded":
      return (
        <>
          It succeeded after <Duration from={run.created_at} to={run.finished_at} />.
        </>
      );
    case "failed": {
      const message = run.error["message"];
      return `It failed: ${typeof message === "string" ? message : "the tab Error says why."}`;
    }
    case "canceled":
      return "It was canceled. What its steps did stays done.";
    case "running":
      return `A worker runs it now${run.claimed_by === null ? "" : `: ${run.claimed_by}`}.`;
    case "waiting": {
      const waits = waitsOf(steps);
      return waits.length === 0 ? "It waits, and holds no worker." : `It waits for ${waits.join(", and for ")}. Waiting holds no worker.`;
    }
    default:
      return "It is queued: a worker that serves workflows takes it next.";
  }
}

function RunFacts({ run }: { run: Run }) {
  return (
    <Facts>
      <Fact name="Asked for by">{run.requested_by}</Fact>
      <Fact name="Created">
        <Time at={run.created_at} />
      </Fact>
      <Fact name={run.finished_at === null ? "Running for" : "Took"}>
        <Duration from={run.created_at} to={run.finished_at} />
      </Fact>
      <Fact name="Version">{run.version === 0 ? "in code" : run.version}</Fact>
      <Fact name="Taken up">{run.attempt_count} times</Fact>
      <Fact name="Source">{run.source_ref === null ? run.source : `${run.source} ${run.source_ref}`}</Fact>
      {run.correlation_id !== null && (
        <Fact name="Correlation">
          <Id value={run.correlation_id} />
        </Fact>
      )}
      {run.parent_run_id !== null && (
        <Fact name="Part of">
          <RunLink id={run.parent_run_id} />
        </Fact>
      )}
      {run.forked_from !== null && (
        <Fact name="Forked from">
          <RunLink id={run.forked_from} />
        </Fact>
      )}
    </Facts>
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
function Requested({ intent }: { intent: Schemas["IntentShown"] }) {
  const words: Partial<Record<typeof intent.status, string>> = {
    awaiting_human: "Policy holds it for review: a person decides under Approvals.",
    blocked: "Policy has blocked it.",
    rejected: "A person has rejected it.",
    failed: "It could not be checked.",
  };
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
      <p className={styles.answer}>
        {words[intent.status] ?? "It becomes a run as soon as an engine takes it; `atlas status` says whether one is there."}
        {intent.reason !== null && ` ${capitalized(intent.reason)}`}
      </p>
      <Facts>
        <Fact name="Asked for by">{intent.requested_by}</Fact>
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
