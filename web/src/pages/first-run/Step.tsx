import { ArrowRight, Check, ChevronDown, ChevronRight, CircleAlert, Loader, SkipForward } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/components/Button";
import { cx, spaced } from "@/format/words";
import type { Role } from "@/session/session";
import styles from "./FirstRun.module.css";
import type { Stage } from "./stages";

/** What a step shows, and how far it is. */
export interface StepView {
  title: string;
  stage: Stage;
  /** What happened, in one sentence with links: shown when it is done. */
  outcome?: ReactNode;
  /** What to do, or what is in progress. */
  body: ReactNode;
}

interface StepProps {
  view: StepView;
  number: number;
  open: boolean;
  skipped: boolean;
  /** The title of the step that is left next, if it is not this step. */
  next: string | undefined;
  onNext: () => void;
  onToggle: () => void;
  onSkip: (skipped: boolean) => void;
}

const WORDS: Record<Stage, string> = { open: "to do", working: "in progress", off: "look here", done: "done" };

/** A step of the guide: its number or its state, its title, and below it what to do or what happened. */
export function Step({ view, number, open, skipped, next, onNext, onToggle, onSkip }: StepProps) {
  const { title, stage, outcome, body } = view;
  const done = stage === "done";
  const passed = skipped && !done;
  return (
    <li className={cx(styles.step, open && styles.isOpen)} data-step={stage}>
      <Mark stage={stage} number={number} skipped={passed} />
      <div className={styles.what}>
        <h2>
          <button type="button" className={styles.title} aria-expanded={open} onClick={onToggle}>
            {title}
            <span className="visually-hidden">({passed ? "skipped" : WORDS[stage]})</span>
            {open ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
          </button>
        </h2>
        {done && outcome !== undefined && <p className={styles.outcome}>{outcome}</p>}
        {passed && !open && <p className={styles.quiet}>Skipped: nothing was seen here.</p>}
        {open && (
          <div className={styles.body}>
            {body}
            {done && next !== undefined && (
              <Button kind="primary" icon={<ArrowRight size={14} aria-hidden />} onClick={onNext}>
                Next: {next}
              </Button>
            )}
            {!done && (
              <Button kind="ghost" className={styles.skip} icon={<SkipForward size={14} aria-hidden />} onClick={() => onSkip(!skipped)}>
                {skipped ? "Do not skip this step" : "Skip this step"}
              </Button>
            )}
          </div>
        )}
      </div>
    </li>
  );
}

function Mark({ stage, number, skipped }: { stage: Stage; number: number; skipped: boolean }) {
  if (skipped) {
    return (
      <span className={styles.mark}>
        <SkipForward size={14} aria-hidden />
      </span>
    );
  }
  const icons = { done: Check, working: Loader, off: CircleAlert };
  const Icon = stage === "open" ? null : icons[stage];
  return (
    <span className={cx(styles.mark, styles[stage])}>{Icon === null ? number : <Icon size={14} strokeWidth={2.5} aria-hidden />}</span>
  );
}

/** That a role may not do a step, and who may. */
export function NotForRole({ role, what, roles }: { role: Role; what: string; roles: readonly Role[] }) {
  const names = roles.map(spaced);
  const others = names.length === 1 ? names[0] : `${names.slice(0, -1).join(", ")} or ${names.at(-1) ?? ""}`;
  return (
    <p className={styles.note}>
      Your role, {spaced(role)}, may not {what}. With a token of the role {others} this step can be done; until then, skip it.
    </p>
  );
}

/** That something the step needs is not loaded, and how it gets there. */
export function Note({ children }: { children: ReactNode }) {
  return <div className={styles.note}>{children}</div>;
}
