import type { ReactNode } from "react";
import { nameCommand } from "@/format/command";
import { CopyButton } from "./Id";
import styles from "./States.module.css";

interface EmptyStateProps {
  title: string;
  /** What belongs here. */
  children?: ReactNode;
  /** The command that makes the first one; it can be copied. */
  command?: string;
  /** The button that makes the first one, or that clears the filters. */
  action?: ReactNode;
}

/** A list without rows: what it is for, and how the first one gets there. */
export function EmptyState({ title, children, command, action }: EmptyStateProps) {
  return (
    <div className={styles.state}>
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {command !== undefined && <Command text={command} />}
      {action}
    </div>
  );
}

/** A command that can be copied. */
export function Command({ text }: { text: string }) {
  const command = nameCommand(text);
  return (
    <div className={styles.command}>
      <code>{command}</code>
      <CopyButton text={command} label="Copy the command" tabStop />
    </div>
  );
}
