import { useMemo, useState } from "react";
import { EmptyState } from "@/components/EmptyState";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { allNodes } from "@/graph/graph";
import { GraphView } from "@/graph/GraphView";
import { EventList } from "./EventList";
import { happeningsOf } from "./happenings";
import { graphOfRun } from "./runGraph";
import styles from "./RunGraph.module.css";
import type { Run } from "./model";
import { useWholeRuns } from "./runs";
import { NodePanel, StepPanel } from "./StepPanel";

interface RunGraphProps {
  run: Run;
  /** The step, or the group of steps, that is open. */
  selected: string | undefined;
  onSelect: (id: string | undefined) => void;
  /** On a phone there is room for one of the two. */
  show: "both" | "graph" | "events";
}

/** The graph of a run beside what happened, in the order of time. Pointing at something in one lights it in the other. */
export function RunGraph({ run, selected, onSelect, show }: RunGraphProps) {
  // By the id of its node: the run within it, or null for what is folded only.
  const [open, setOpen] = useState<ReadonlyMap<string, string | null>>(new Map());
  const [lit, setLit] = useState<string>();
  const { known, first } = useWholeRuns([run.id, ...[...open.values()].filter((id) => id !== null)]);
  const data = known.get(run.id);
  const picture = useMemo(() => (data === undefined ? undefined : graphOfRun(data, open, known)), [data, open, known]);
  const happenings = useMemo(() => (picture === undefined ? [] : happeningsOf(run, picture)), [run, picture]);

  if (picture === undefined)
    return first?.isError === true ? <ProblemView error={first.error} onRetry={() => void first.refetch()} /> : <Skeleton height={320} />;
  if (picture.steps.size === 0 && data?.document == null)
    return <EmptyState title="No step is recorded yet">Each step appears here once it is recorded.</EmptyState>;

  const toggle = (id: string): void => {
    const next = new Map(open);
    if (!next.delete(id)) next.set(id, picture.steps.get(id)?.step.child_id ?? null);
    setOpen(next);
  };
  const shown = selected === undefined ? undefined : picture.steps.get(selected);
  const node = selected === undefined || shown !== undefined ? undefined : [...allNodes(picture)].find((one) => one.id === selected);
  const close = (): void => onSelect(undefined);
  return (
    <div className={styles.split} data-show={show}>
      {show !== "events" && (
        <GraphView
          label={`Graph of ${run.workflow}`}
          nodes={picture.nodes}
          edges={picture.edges}
          selected={shown?.node ?? node?.id}
          onSelect={onSelect}
          lit={lit}
          onLight={setLit}
          onToggle={toggle}
        />
      )}
      {(show !== "graph" || shown !== undefined || node !== undefined) && (
        <div className={styles.side}>
          {show !== "graph" && <EventList happenings={happenings} selected={selected} onSelect={onSelect} lit={lit} onLight={setLit} />}
          {shown !== undefined && <StepPanel key={shown.id} shown={shown} onClose={close} />}
          {node !== undefined && (
            <NodePanel node={node} onClose={close} onToggle={node.folds === true ? () => toggle(node.id) : undefined} />
          )}
        </div>
      )}
    </div>
  );
}
