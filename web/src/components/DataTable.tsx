import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useId, useMemo, useRef, useState, type CSSProperties, type KeyboardEvent, type ReactNode } from "react";
import { isStale, useLive } from "@/live/live";
import { toServerTime } from "@/format/clock";
import { cx } from "@/format/words";
import { ROW_HEIGHTS, useDensity } from "@/frame/appearance";
import { useShortcut } from "@/frame/shortcuts";
import { Action } from "./Button";
import styles from "./DataTable.module.css";
import { EndKept } from "./Id";
import { ProblemView } from "./ProblemView";
import { Skeleton } from "./Skeleton";
import { Time } from "./Time";
import { useNarrow } from "./useNarrow";

const SKELETONS = 12;
/** The height of a row that is a card, before it is measured. */
const CARD_HEIGHT = 112;
/** How many cells lead a card, without their names. */
const LEADS = 2;
/** So many rows before the end the next page is fetched. */
const AHEAD = 10;

export interface Column<Row> {
  key: string;
  header: string;
  cell?: (row: Row) => ReactNode;
  /** In place of a cell: one line of text, cut off where the column ends. */
  text?: (row: Row) => string | null | undefined;
  /** An id is cut before its end. */
  look?: "mono" | "quiet" | "mono quiet" | "id";
  /** A CSS grid track: "120px", "minmax(160px, 2fr)". */
  width?: string;
  align?: "start" | "end";
  /** Secondary: below the main columns where rows are cards, on narrow screens. */
  wideOnly?: boolean;
}

/** What the table needs of a query; a query of TanStack's has it all. */
export interface TableQuery {
  isPending: boolean;
  isError: boolean;
  error: unknown;
  /** Why the last attempt failed; it is repeated unless `isError`. */
  failureReason: unknown;
  dataUpdatedAt: number;
  refetch: () => unknown;
  /** Of a list that is read page by page. */
  hasNextPage?: boolean;
  isFetchingNextPage?: boolean;
  fetchNextPage?: () => unknown;
}

interface DataTableProps<Row> {
  /** What the rows are, for those who do not see the table. */
  label: string;
  rows: readonly Row[] | undefined;
  rowKey: (row: Row) => string;
  columns: readonly Column<Row>[];
  query: TableQuery;
  /** Shown instead of no rows: an EmptyState. */
  empty: ReactNode;
  /** A click on a row. */
  onOpen?: (row: Row) => void;
  /** Enter on a row; what a click does if not given. */
  onEnter?: (row: Row) => void;
  /** The key r on a row. */
  onRetry?: ((row: Row) => void) | undefined;
  /** The row that is open beside the table. */
  openKey?: string | undefined;
  /** Rows that were chosen for a bulk action. */
  chosen?: ReadonlySet<string>;
  onChoose?: (chosen: ReadonlySet<string>) => void;
  /** What a row shows over its whole width, in place of cells: a line between others. Undefined for a row like any other. */
  band?: (row: Row) => ReactNode;
  /** As high as its rows, instead of filling the page. */
  inline?: boolean;
}

/** A virtual table: rows as high as the chosen density, j/k and Enter, and every state that a list has. */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { label, rows, query, empty, inline = false } = props;
  if (query.isError && rows === undefined) return <ProblemView error={query.error} onRetry={() => void query.refetch()} />;
  if (query.isPending && rows === undefined) {
    return query.failureReason === null ? <SkeletonTable {...props} /> : <ProblemView error={query.failureReason} />;
  }
  if (rows === undefined || rows.length === 0) return <>{empty}</>;
  return (
    <div className={cx(styles.frame, inline && styles.inline)}>
      <Stale query={query} />
      <Grid {...props} rows={rows} label={label} />
    </div>
  );
}

/** A line above rows that may be out of date. */
function Stale({ query }: { query: TableQuery }) {
  const lost = isStale(useLive());
  if (!query.isError && !lost) return null;
  return (
    <p className={styles.stale} role="status">
      Last updated <Time at={toServerTime(query.dataUpdatedAt)} />, {query.isError ? "and the last try failed" : "reconnecting"}
      <Action onClick={() => void query.refetch()}>Try now</Action>
    </p>
  );
}

/** The columns in their order, their tracks, and how wide they are at least: head and rows must agree on it. Cards have no tracks. */
function useColumns<Row>(
  columns: readonly Column<Row>[],
  chooses: boolean,
): { shown: readonly Column<Row>[]; isCards: boolean; grid: CSSProperties; least: number } {
  const isCards = useNarrow();
  return useMemo(() => {
    if (isCards) {
      // What can be done with a card comes last.
      const rank = (column: Column<Row>): number => (column.header === "" ? 2 : column.wideOnly === true ? 1 : 0);
      const shown = columns.toSorted((one, other) => rank(one) - rank(other));
      return { shown, isCards, grid: {}, least: 0 };
    }
    const widths = [...(chooses ? ["32px"] : []), ...columns.map((one) => one.width ?? "minmax(96px, 1fr)")];
    const least = widths.reduce((sum, width) => sum + Number(/\d+/.exec(width)?.[0] ?? 0), 0);
    return { shown: columns, isCards, grid: { gridTemplateColumns: widths.join(" ") }, least };
  }, [columns, isCards, chooses]);
}

function contentOf<Row>({ cell, text, look }: Column<Row>, row: Row): ReactNode {
  if (text === undefined) return cell?.(row);
  const shown = text(row);
  return look === "id" ? <EndKept text={shown ?? ""} /> : <span className={cx("truncate", look)}>{shown}</span>;
}

function Grid<Row>(props: DataTableProps<Row> & { rows: readonly Row[] }) {
  const {
    label,
    rows,
    rowKey,
    columns,
    onOpen,
    onEnter = onOpen,
    onRetry,
    openKey,
    chosen,
    onChoose,
    band,
    query: { hasNextPage: hasMore = false, isFetchingNextPage: isLoadingMore = false, fetchNextPage },
  } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const prefix = useId();
  const { shown, isCards, grid, least } = useColumns(columns, onChoose !== undefined);
  const [activeKey, setActiveKey] = useState<string | null>(openKey ?? null);
  const active = activeKey === null ? -1 : rows.findIndex((row) => rowKey(row) === activeKey);
  const rowHeight = ROW_HEIGHTS[useDensity()];
  const height = isCards ? CARD_HEIGHT : rowHeight;
  // The compiler of React leaves this function alone: what the virtualizer returns changes without a new identity.
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 12,
    getItemKey: (index) => {
      const row = rows[index];
      return row === undefined ? index : rowKey(row);
    },
  });
  const items = virtualizer.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const isActiveDrawn = items.some((item) => item.index === active);

  useEffect(() => virtualizer.measure(), [virtualizer, height]);
  useEffect(() => {
    if (hasMore && !isLoadingMore && last >= rows.length - AHEAD) fetchNextPage?.();
  }, [hasMore, isLoadingMore, last, rows.length, fetchNextPage]);

  const moveTo = (index: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    const row = rows[next];
    if (row === undefined) return;
    setActiveKey(rowKey(row));
    virtualizer.scrollToIndex(next);
  };
  const onActive = (act: ((row: Row) => void) | undefined) => (): void => {
    const row = rows[active];
    if (row !== undefined) act?.(row);
  };
  const choose = (key: string): void => {
    const next = new Set(chosen);
    if (!next.delete(key)) next.add(key);
    onChoose?.(next);
  };
  useShortcut("j", "Next row", () => moveTo(active + 1));
  useShortcut("k", "Previous row", () => moveTo(active < 0 ? 0 : active - 1));
  useShortcut("Enter", "Open the row", onActive(onEnter), active >= 0 && onEnter !== undefined);
  useShortcut("o", "Open the row in a side panel", onActive(onOpen), active >= 0 && onOpen !== onEnter);
  useShortcut("r", "Retry the row", onActive(onRetry), active >= 0 && onRetry !== undefined);
  useShortcut("x", "Choose the row", () => activeKey !== null && choose(activeKey), onChoose !== undefined);

  const onKeyDown = (event: KeyboardEvent): void => {
    const moves: Record<string, number> = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      Home: 0,
      End: rows.length - 1,
      PageDown: active + 20,
      PageUp: active - 20,
    };
    const next = moves[event.key];
    if (next === undefined) return;
    event.preventDefault();
    moveTo(next);
  };
  const everyChosen = chosen !== undefined && rows.length > 0 && rows.every((row) => chosen.has(rowKey(row)));

  return (
    <div
      ref={scroller}
      className={cx(styles.scroller, isCards && styles.cards)}
      role="grid"
      aria-label={label}
      aria-rowcount={hasMore ? -1 : rows.length + 1}
      aria-activedescendant={isActiveDrawn ? `${prefix}${active}` : undefined}
      tabIndex={0}
      onKeyDown={onKeyDown}
    >
      <div className={cx(styles.row, styles.head)} role="row" aria-rowindex={1} style={{ ...grid, minWidth: least }}>
        {onChoose !== undefined && (
          <div role="columnheader" className={styles.cell}>
            <input
              type="checkbox"
              aria-label="Choose all rows"
              checked={everyChosen}
              onChange={() => onChoose(everyChosen ? new Set() : new Set(rows.map(rowKey)))}
            />
            {isCards && <span aria-hidden>Choose all</span>}
          </div>
        )}
        {shown.map((column) => (
          <div key={column.key} role="columnheader" className={cx(styles.cell, column.align === "end" && styles.end)}>
            {column.header === "" ? (
              <span className="visually-hidden">Actions</span>
            ) : (
              <span className="truncate" title={column.header}>
                {column.header}
              </span>
            )}
          </div>
        ))}
      </div>
      <div role="rowgroup" className={styles.body} style={{ height: virtualizer.getTotalSize(), minWidth: least }}>
        {items.map((item) => {
          const row = rows[item.index];
          if (row === undefined) return null;
          const key = rowKey(row);
          const wide = band?.(row);
          if (wide !== undefined) {
            return (
              <div
                key={key}
                role="row"
                aria-rowindex={item.index + 2}
                ref={isCards ? virtualizer.measureElement : undefined}
                data-index={item.index}
                className={cx(styles.row, styles.band)}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <div role="gridcell" aria-colspan={shown.length} className={styles.cell}>
                  {wide}
                </div>
              </div>
            );
          }
          return (
            // The grid itself has the focus and handles the keys: aria-activedescendant names the row.
            // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
            <div
              key={key}
              id={`${prefix}${item.index}`}
              ref={isCards ? virtualizer.measureElement : undefined}
              data-index={item.index}
              role="row"
              aria-rowindex={item.index + 2}
              aria-selected={key === openKey || chosen?.has(key) === true}
              className={cx(styles.row, onOpen && styles.opens, item.index === active && styles.active, key === openKey && styles.open)}
              style={{ ...grid, transform: `translateY(${item.start}px)` }}
              onClick={() => {
                setActiveKey(key);
                if (window.getSelection()?.isCollapsed !== false) onOpen?.(row);
              }}
            >
              {onChoose !== undefined && (
                // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
                <div role="gridcell" className={styles.cell} onClick={(event) => event.stopPropagation()}>
                  <input
                    type="checkbox"
                    tabIndex={-1}
                    aria-label={`Choose ${key}`}
                    checked={chosen?.has(key) === true}
                    onChange={() => choose(key)}
                  />
                </div>
              )}
              {shown.map((column, at) => (
                <div key={column.key} role="gridcell" className={cx(styles.cell, column.align === "end" && styles.end)}>
                  {isCards ? (
                    <Named column={column} isLead={at < LEADS}>
                      {contentOf(column, row)}
                    </Named>
                  ) : (
                    contentOf(column, row)
                  )}
                </div>
              ))}
            </div>
          );
        })}
      </div>
      {isLoadingMore && (
        <p className={styles.more} role="status">
          Loading more
        </p>
      )}
    </div>
  );
}

/** The value in a card with its name: the first values speak for themselves, unless they are numbers. */
function Named<Row>({ column, isLead, children }: { column: Column<Row>; isLead: boolean; children: ReactNode }) {
  const isNamed = column.header !== "" && (!isLead || column.align === "end");
  return (
    <>
      {isNamed && <span className={styles.label}>{column.header}</span>}
      <span className={styles.value}>{children}</span>
    </>
  );
}

function SkeletonTable<Row>({ label, columns, onChoose, inline = false }: DataTableProps<Row>) {
  const { shown, grid } = useColumns(columns, onChoose !== undefined);
  return (
    <div className={cx(styles.frame, inline && styles.inline)} role="status" aria-label={`Loading ${label}`}>
      <div className={cx(styles.row, styles.head)} style={grid}>
        {onChoose !== undefined && <div />}
        {shown.map((column) => (
          <div key={column.key} className={styles.cell}>
            {column.header}
          </div>
        ))}
      </div>
      {Array.from({ length: SKELETONS }, (_, index) => (
        <div key={index} className={cx(styles.row, styles.still)} style={grid}>
          {onChoose !== undefined && <div />}
          {shown.map((column, at) => (
            <div key={column.key} className={styles.cell}>
              <Skeleton width={`${45 + ((index * 7 + at * 13) % 40)}%`} />
            </div>
          ))}
        </div>
      ))}
    </div>
  );
}
