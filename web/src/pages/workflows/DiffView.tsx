import { useMemo, useState } from "react";
import { plural } from "@/format/numbers";
import { cx } from "@/format/words";
import { countChanges, diffLines, folded, type DiffLine, type Fold } from "./diff";
import styles from "./Workflows.module.css";

/** The differences between two texts, line by line; what is the same and far from them is folded away. */
export function DiffView({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const parts = useMemo(() => folded(lines), [lines]);
  const { added, removed } = countChanges(lines);
  if (added + removed === 0) return <p className="quiet">There is no difference.</p>;
  return (
    <>
      <p className="quiet">
        {plural(added, "line")} added, {plural(removed, "line")} removed
      </p>
      {/* A scrolling region can be reached by the keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className={styles.diff} role="region" aria-label={label} tabIndex={0}>
        {parts.map((part, index) => (part.sign === "…" ? <Folded key={index} fold={part} /> : <Line key={index} line={part} />))}
      </div>
    </>
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
