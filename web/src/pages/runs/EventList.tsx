import { useVirtualizer } from "@tanstack/react-virtual";
import { Send } from "lucide-react";
import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import { statusColour, StatusIcon } from "@/components/StatusChip";
import { Moment } from "@/components/Time";
import { exactTime } from "@/format/time";
import { cx } from "@/format/words";
import { statusWord } from "@/graph/words";
import { useShortcut } from "@/frame/shortcuts";
import type { Happening } from "./happenings";
import styles from "./RunGraph.module.css";

const ROW = 48;

interface EventListProps {
  happenings: readonly Happening[];
  selected: string | undefined;
  onSelect: (id: string) => void;
  /** A node of the graph. */
  lit: string | undefined;
  onLight: (id: string | undefined) => void;
}

/** What happened, in the order of time. j and k and the arrow keys go through it, Enter opens the step. */
export function EventList({ happenings, selected, onSelect, lit, onLight }: EventListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const prefix = useId();
  const [activeKey, setActiveKey] = useState<string>();
  const active = happenings.findIndex((one) => one.key === activeKey);
  // The compiler of React leaves this function alone: what the virtualizer returns changes without a new identity.
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtualizer = useVirtualizer({
    count: happenings.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 10,
    getItemKey: (index) => happenings[index]?.key ?? index,
  });

  const chosen = happenings.findIndex((one) => one.step !== null && one.step.id === selected);
  useEffect(() => {
    if (chosen >= 0) virtualizer.scrollToIndex(chosen);
    // Only when another step is opened, not when rows are added.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [selected]);

  const moveTo = (index: number): void => {
    const next = Math.max(0, Math.min(happenings.length - 1, index));
    setActiveKey(happenings[next]?.key);
    onLight(happenings[next]?.step?.node);
    virtualizer.scrollToIndex(next);
  };
  const enter = (): void => {
    const step = happenings[active]?.step;
    if (step != null) onSelect(step.id);
  };
  useShortcut("j", "Next event", () => moveTo(active + 1));
  useShortcut("k", "Event before", () => moveTo(active - 1));
  useShortcut("Enter", "Open the step", enter, active >= 0);
  const onKeyDown = (event: KeyboardEvent): void => {
    const moves: Record<string, number> = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      Home: 0,
      End: happenings.length - 1,
      PageDown: active + 10,
      PageUp: active - 10,
    };
    const next = moves[event.key];
    if (next === undefined) return;
    event.preventDefault();
    moveTo(next);
  };
  return (
    <div
      ref={scroller}
      className={styles.list}
      role="listbox"
      aria-label="Events"
      tabIndex={0}
      aria-activedescendant={active >= 0 ? `${prefix}${active}` : undefined}
      onKeyDown={onKeyDown}
      onBlur={() => onLight(undefined)}
      onPointerLeave={() => onLight(undefined)}
    >
      <div className={styles.rows} role="presentation" style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map((item) => {
          const one = happenings[item.index];
          if (one === undefined) return null;
          const { step } = one;
          return (
            // The list itself has the focus and handles the keys: aria-activedescendant names the row.
            // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
            <div
              key={one.key}
              id={`${prefix}${item.index}`}
              role="option"
              data-lit={(step !== null && step.node === lit) || undefined}
              aria-selected={step !== null && step.id === selected}
              aria-setsize={happenings.length}
              aria-posinset={item.index + 1}
              className={cx(
                styles.row,
                step === null && styles.own,
                step !== null && step.node === lit && styles.lit,
                item.index === active && styles.active,
                step !== null && step.id === selected && styles.open,
              )}
              style={{ transform: `translateY(${item.start}px)` }}
              onClick={() => {
                setActiveKey(one.key);
                if (step !== null) onSelect(step.id);
              }}
              onPointerEnter={() => onLight(step?.node)}
            >
              <Mark status={one.status} />
              <span className={styles.title}>
                <span className="truncate">{one.title}</span>
              </span>
              <span className={cx(styles.words, "truncate")} title={one.words}>
                {one.words}
              </span>
              <At at={one.at} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Mark({ status }: { status: Happening["status"] }) {
  if (status === "requested") return <Send size={14} aria-hidden />;
  return (
    <span style={{ color: statusColour(status), display: "inline-flex" }}>
      <StatusIcon status={status} size={14} />
      <span className="visually-hidden">{statusWord(status)}</span>
    </span>
  );
}

function At({ at }: { at: number }) {
  return (
    <Moment at={at} className={cx(styles.at, "mono")}>
      {exactTime(new Date(at)).slice(11)}
    </Moment>
  );
}
