import {
  Binary,
  Box,
  ChevronDown,
  ChevronRight,
  CirclePlay,
  CircleStop,
  Code,
  Hourglass,
  Layers,
  Radio,
  TriangleAlert,
  Undo2,
  UserCheck,
  Workflow,
  type LucideIcon,
} from "lucide-react";
import { memo, type ReactNode } from "react";
import { IconButton } from "@/components/Button";
import { statusColour, StatusIcon } from "@/components/StatusChip";
import { cx } from "@/format/words";
import type { GraphNode, NodeKind } from "./graph";
import styles from "./Graph.module.css";
import { GROUP_HEAD, type PlacedNode } from "./layout";
import { KIND_WORDS, statusWord } from "./words";

const ICONS: Record<NodeKind, LucideIcon> = {
  start: CirclePlay,
  end: CircleStop,
  step: Code,
  job: Box,
  child: Workflow,
  sleep: Hourglass,
  event: Radio,
  approval: UserCheck,
  value: Binary,
  failure: TriangleAlert,
  undo: Undo2,
  fold: Layers,
};

interface NodeBoxProps {
  placed: PlacedNode;
  isSelected: boolean;
  isLit: boolean;
  /** The one that Tab leads to. */
  isReached: boolean;
  onSelect: ((id: string) => void) | undefined;
  onLight: ((id: string | undefined) => void) | undefined;
  onToggle: ((id: string) => void) | undefined;
  onFocus: (id: string) => void;
}

/** One node: the ring and icon of its status, its name, and a line about it. An open group is a frame with that as its title. */
export const NodeBox = memo(function NodeBox({ placed, isSelected, isLit, isReached, onSelect, onLight, onToggle, onFocus }: NodeBoxProps) {
  const { node, x, y, width, height } = placed;
  const tone = node.status === undefined ? undefined : statusColour(node.status);
  const box = { transform: `translate(${x}px, ${y}px)`, width, height, "--tone": tone };
  if (node.kind === "start" || node.kind === "end") return <Dot node={node} box={box} />;
  const isGroup = node.inner !== undefined;
  const Kind = ICONS[node.kind];
  return (
    <div
      className={cx(
        styles.node,
        isGroup && styles.group,
        isLit && styles.lit,
        isSelected && styles.selected,
        node.problem !== undefined && styles.problem,
      )}
      style={box}
      data-status={node.status}
    >
      <button
        type="button"
        className={styles.body}
        style={isGroup ? { height: GROUP_HEAD - 4 } : undefined}
        data-node={node.id}
        data-lit={isLit || undefined}
        aria-current={isSelected ? "true" : undefined}
        tabIndex={isReached ? 0 : -1}
        title={node.problem}
        onClick={() => onSelect?.(node.id)}
        onPointerEnter={() => onLight?.(node.id)}
        onPointerLeave={() => onLight?.(undefined)}
        onFocus={() => {
          onFocus(node.id);
          onLight?.(node.id);
        }}
        onBlur={() => onLight?.(undefined)}
      >
        <span className={styles.ring}>
          {node.status === undefined ? <Kind size={13} aria-hidden /> : <StatusIcon status={node.status} size={13} />}
        </span>
        <span className={styles.text}>
          <span className={styles.label}>
            <span className={cx(styles.title, "truncate")}>{node.label}</span>
            <Hidden>{KIND_WORDS[node.kind]}</Hidden>
            {node.badges?.map((badge) => (
              <span key={badge.label} className={styles.badge} title={badge.title}>
                {badge.label}
                <Hidden> {badge.title}</Hidden>
              </span>
            ))}
          </span>
          <span className={styles.detail}>
            {node.status !== undefined && <Kind size={11} aria-hidden />}
            <span className="truncate">
              {[node.status && statusWord(node.status), node.detail].filter(Boolean).join(" · ") || KIND_WORDS[node.kind]}
            </span>
            {node.problem !== undefined && <Hidden>{node.problem}</Hidden>}
          </span>
        </span>
      </button>
      {node.folds === true && onToggle !== undefined && (
        <IconButton
          label={isGroup ? `Fold ${node.label}` : `Unfold ${node.label}`}
          aria-expanded={isGroup}
          className={styles.toggle}
          tabIndex={isReached ? 0 : -1}
          onClick={() => onToggle(node.id)}
        >
          {isGroup ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
        </IconButton>
      )}
    </div>
  );
});

/** For those who do not see the icons. */
function Hidden({ children }: { children: ReactNode }) {
  return <span className="visually-hidden">{children}</span>;
}

function Dot({ node, box }: { node: GraphNode; box: object }) {
  const Icon = ICONS[node.kind];
  return (
    <div className={styles.dot} style={box} title={node.label}>
      {node.status === undefined ? <Icon size={18} aria-hidden /> : <StatusIcon status={node.status} size={16} />}
    </div>
  );
}
