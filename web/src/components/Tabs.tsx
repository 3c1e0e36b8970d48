import * as Radix from "@radix-ui/react-tabs";
import { useEffect, useRef, type ReactNode, type RefObject } from "react";
import { cx } from "@/format/words";
import styles from "./Tabs.module.css";

export interface Tab<Key extends string> {
  key: Key;
  label: string;
  /** A number beside the label. */
  count?: ReactNode;
  /** Made when the tab is shown. */
  content: () => ReactNode;
}

interface TabsProps<Key extends string> {
  label: string;
  value: Key;
  onChange: (key: Key) => void;
  tabs: readonly Tab<Key>[];
  /** The open one takes the rest of the page, for a table that scrolls within. */
  fill?: boolean;
}

/** Tabs; which one is open belongs in the address. */
export function Tabs<Key extends string>({ label, value, onChange, tabs, fill = false }: TabsProps<Key>) {
  const list = useChosenInView<HTMLDivElement>(value);
  return (
    <Radix.Root value={value} onValueChange={(next) => onChange(next as Key)} className={cx(styles.tabs, fill && styles.fill)}>
      <Radix.List ref={list} className={cx(styles.list, "line-of-choices")} aria-label={label}>
        {tabs.map((tab) => (
          <Radix.Trigger key={tab.key} value={tab.key} className={styles.tab}>
            {tab.label}
            {tab.count !== undefined && <span className={styles.count}>{tab.count}</span>}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content key={tab.key} value={tab.key} className={styles.content}>
          {tab.key === value && tab.content()}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}

const CHOSEN = "[data-state=active], [aria-current], [aria-pressed=true]";

/** For a line of choices that may scroll: brings the chosen one into view when the choice changes. The page stays where it is. */
export function useChosenInView<Line extends HTMLElement>(choice: string | undefined): RefObject<Line | null> {
  const line = useRef<Line>(null);
  useEffect(() => {
    const box = line.current?.getBoundingClientRect();
    const chosen = line.current?.querySelector(CHOSEN)?.getBoundingClientRect();
    if (box !== undefined && chosen !== undefined) line.current?.scrollBy(chosen.left - box.left - (box.width - chosen.width) / 2, 0);
  }, [choice]);
  return line;
}

/** Tabs that are pages of their own: links, of which the one to the page that is shown stands out. */
export function PageTabs({ label, children }: { label: string; children: ReactNode }) {
  return (
    <nav className={cx(styles.list, "line-of-choices")} aria-label={label}>
      {children}
    </nav>
  );
}

/** The look of a link among `PageTabs`; the router marks the one that is shown. */
export const PAGE_TAB = styles.tab;
