import {
  Ban,
  Check,
  Circle,
  CircleDashed,
  CircleHelp,
  CirclePause,
  Clock,
  Loader,
  RotateCw,
  SkipForward,
  Skull,
  X,
  type LucideIcon,
} from "lucide-react";
import { cx, spaced } from "@/format/words";
import styles from "./StatusChip.module.css";

interface Look {
  icon: LucideIcon;
  tone: string;
}

/** The statuses of jobs, runs, steps, approvals, intents, effects, workers. Colour is never alone: each has an icon and a word. */
const LOOKS: Record<string, Look> = {
  queued: { icon: Circle, tone: "queued" },
  running: { icon: Loader, tone: "running" },
  retrying: { icon: RotateCw, tone: "waiting" },
  succeeded: { icon: Check, tone: "succeeded" },
  done: { icon: Check, tone: "succeeded" },
  approved: { icon: Check, tone: "succeeded" },
  active: { icon: Check, tone: "succeeded" },
  alive: { icon: Check, tone: "succeeded" },
  failed: { icon: X, tone: "failed" },
  rejected: { icon: X, tone: "failed" },
  blocked: { icon: X, tone: "failed" },
  dead: { icon: X, tone: "failed" },
  canceled: { icon: Ban, tone: "canceled" },
  expired: { icon: Ban, tone: "canceled" },
  disabled: { icon: Ban, tone: "canceled" },
  skipped: { icon: SkipForward, tone: "canceled" },
  unreached: { icon: CircleDashed, tone: "queued" },
  waiting: { icon: Clock, tone: "waiting" },
  sleeping: { icon: Clock, tone: "waiting" },
  pending: { icon: Clock, tone: "waiting" },
  stale: { icon: Clock, tone: "waiting" },
  paused: { icon: CirclePause, tone: "waiting" },
  unknown: { icon: CircleHelp, tone: "waiting" },
  intended: { icon: Loader, tone: "running" },
  refused: { icon: Ban, tone: "canceled" },
  dead_letter: { icon: Skull, tone: "deadLetter" },
};
const UNKNOWN: Look = { icon: CircleDashed, tone: "canceled" };

/** A status as icon, word and colour. */
export function StatusChip({ status, label }: { status: string; label?: string }) {
  const { tone } = LOOKS[status] ?? UNKNOWN;
  return (
    // A key, so that a change cross-fades.
    <span key={status} className={cx(styles.chip, styles[tone])} data-status={status}>
      <StatusIcon status={status} />
      {label ?? spaced(status)}
    </span>
  );
}

/** The icon of a status, where the word stands beside it. */
export function StatusIcon({ status, size = 12 }: { status: string; size?: number }) {
  const { icon: Icon } = LOOKS[status] ?? UNKNOWN;
  return <Icon size={size} strokeWidth={2.5} aria-hidden />;
}

/** The variable that holds a status's colour, for charts and bars. */
export function statusColour(status: string): string {
  const tone = (LOOKS[status] ?? UNKNOWN).tone;
  return tone === "deadLetter" ? "var(--dead)" : `var(--${tone})`;
}
