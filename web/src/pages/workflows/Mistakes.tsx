import { Check, CircleAlert, Loader } from "lucide-react";
import { ProblemLine } from "@/components/ProblemView";
import { plural } from "@/format/numbers";
import { cx } from "@/format/words";
import type { Mistake } from "./editor/problems";
import type { Checked } from "./useChecked";
import styles from "./Workflows.module.css";

/** What is wrong with the text, line by line; a click leads there. */
export function Mistakes({ checked, isChanged, onGoTo }: { checked: Checked; isChanged: boolean; onGoTo: (one: Mistake) => void }) {
  const { mistakes, state, error } = checked;
  return (
    <>
      <p className={cx(styles.checked, state === "ok" && styles.ok, mistakes.length > 0 && styles.wrong)} role="status">
        {mistakes.length > 0 ? (
          <CircleAlert size={14} aria-hidden />
        ) : state === "ok" ? (
          <Check size={14} aria-hidden />
        ) : (
          <Loader size={14} aria-hidden />
        )}
        {mistakes.length > 0
          ? plural(mistakes.length, "mistake")
          : state === "ok"
            ? isChanged
              ? "Ready to publish"
              : "No mistakes, and nothing changed yet"
            : state === "stale"
              ? "Checking"
              : "Not checked"}
      </p>
      {state === "unknown" && <ProblemLine error={error} />}
      {mistakes.length > 0 && (
        <ul className={styles.mistakes} aria-label="Mistakes">
          {mistakes.map((one, index) => (
            <li key={index}>
              <button type="button" className={styles.mistake} onClick={() => onGoTo(one)}>
                <span className={styles.place}>Line {one.line}</span>
                <span>
                  {one.field !== "" && <code>{one.field}</code>} {one.reason}
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
