import { useMemo, useState } from "react";
import { StatusChip } from "@/components/StatusChip";
import { plural } from "@/format/numbers";
import { cx } from "@/format/words";
import { countChanges, diffLines, folded, type DiffLine, type Fold } from "./diff";
import { compareStructure, type Difference, type StepChange, type StructureDiff } from "./structure";
import styles from "./Workflows.module.css";

/** The differences between two workflows: step by step where both are whole documents, and line by line. */
export function DiffView({ before, after, label }: { before: string; after: string; label: string }) {
  const structure = useMemo(() => compareStructure(before, after), [before, after]);
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const { added, removed } = countChanges(lines);
  if (added + removed === 0) return <p className="quiet">There is no difference.</p>;
  const count = `${plural(added, "line")} added, ${plural(removed, "line")} removed`;
  return (
    <div role="region" aria-label={label}>
      {structure === null ? (
        <>
          <p className="quiet">{count}</p>
          <Lines lines={lines} />
        </>
      ) : (
        <>
          <Structure diff={structure} />
          <details className={styles.byLine}>
            <summary>Line by line: {count}</summary>
            <Lines lines={lines} />
          </details>
        </>
      )}
    </div>
  );
}

const CHIPS: Record<StepChange["kind"], string> = { added: "succeeded", removed: "failed", changed: "retrying", renamed: "retrying" };

function Structure({ diff }: { diff: StructureDiff }) {
  return (
    <ul className={styles.structure}>
      {diff.fields.length > 0 && (
        <li>
          <Differences differences={diff.fields} />
        </li>
      )}
      {diff.steps.map((step) => (
        <li key={step.id}>
          <StatusChip status={CHIPS[step.kind]} label={step.kind} /> step <code>{step.id}</code> <span className="quiet">{step.about}</span>
          {step.differences.length > 0 && <Differences differences={step.differences} />}
        </li>
      ))}
    </ul>
  );
}

function Differences({ differences }: { differences: readonly Difference[] }) {
  return (
    <dl className={styles.differences}>
      {differences.map(({ path, before, after }) => (
        <div key={path}>
          <dt className="mono">{path}</dt>
          <dd>
            {before !== undefined && <del className={styles.removed}>{JSON.stringify(before)}</del>}
            {before !== undefined && after !== undefined && <span aria-hidden> → </span>}
            {after !== undefined && <ins className={styles.added}>{JSON.stringify(after)}</ins>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Lines that are the same and far from any change are folded away. */
function Lines({ lines }: { lines: readonly DiffLine[] }) {
  const parts = useMemo(() => folded(lines), [lines]);
  return (
    // A scrolling region can be reached by the keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={styles.diff} role="group" aria-label="Line by line" tabIndex={0}>
      {parts.map((part, index) => (part.sign === "…" ? <Folded key={index} fold={part} /> : <Line key={index} line={part} />))}
    </div>
  );
}

function Folded({ fold }: { fold: Fold }) {
  const [open, setOpen] = useState(false);
  if (open) return fold.lines.map((line, index) => <Line key={index} line={line} />);
  return (
    <button type="button" className={styles.fold} onClick={() => setOpen(true)}>
      Show {fold.lines.length} lines that are the same
    </button>
  );
}

const WORDS = { "+": "added", "-": "removed", " ": "" };

function Line({ line }: { line: DiffLine }) {
  return (
    <div className={cx(styles.line, line.sign === "+" && styles.added, line.sign === "-" && styles.removed)}>
      <span className={styles.number}>{line.before ?? ""}</span>
      <span className={styles.number}>{line.after ?? ""}</span>
      <span className={styles.sign}>
        <span aria-hidden>{line.sign === "-" ? "−" : line.sign}</span>
        <span className="visually-hidden">{WORDS[line.sign]}</span>
      </span>
      <code className={styles.code}>{line.text}</code>
    </div>
  );
}
