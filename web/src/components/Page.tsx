import { useEffect, type ReactNode } from "react";
import { visible } from "@/format/visible";
import { cx } from "@/format/words";
import styles from "./Page.module.css";

interface PageProps {
  title: string;
  /** Beside the title: a status or an id. */
  about?: ReactNode;
  /** The one main action, and a few beside it. */
  actions?: ReactNode;
  /** Links to pages that belong together: `PageTabs`. */
  tabs?: ReactNode;
  /** The line of filters. */
  filters?: ReactNode;
  /** The content takes the rest of the window and scrolls within: for tables. */
  fill?: boolean;
  children: ReactNode;
}

/** A page: title line, filter line, content. */
export function Page({ title, about, actions, tabs, filters, fill = false, children }: PageProps) {
  useEffect(() => {
    document.title = `${visible(title)} · Atlas`;
  }, [title]);
  return (
    <div className={cx(styles.page, fill && styles.fill)}>
      <header className={styles.title}>
        <h1 className="truncate">{title}</h1>
        {about}
        {actions !== undefined && <div className={styles.actions}>{actions}</div>}
      </header>
      {tabs}
      {filters !== undefined && <div className={styles.filters}>{filters}</div>}
      {children}
    </div>
  );
}

/** A part of a page under a heading. */
export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className={styles.section} aria-label={title}>
      <div className={styles.heading}>
        <h2>{title}</h2>
        {actions !== undefined && <div className={styles.actions}>{actions}</div>}
      </div>
      {children}
    </section>
  );
}

/** Names and values under each other. */
export function Facts({ children }: { children: ReactNode }) {
  return <dl className={styles.facts}>{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className={styles.fact}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
