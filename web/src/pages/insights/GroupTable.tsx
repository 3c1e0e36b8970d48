import { Link } from "@tanstack/react-router";
import { ArrowDown, ArrowUp } from "lucide-react";
import type { ReactNode } from "react";
import type { Schemas } from "@/api/client";
import { money, percent, short, whole } from "@/format/numbers";
import { cx } from "@/format/words";
import { nameOf, sorted, type Group, type Sort } from "./groups";
import styles from "./Insights.module.css";
import { seconds } from "./KeyFigures";

interface Column {
  sort: Sort;
  header: string;
  cell: (group: Group) => ReactNode;
}

const COLUMNS: readonly Column[] = [
  { sort: "success_rate", header: "Succeeded", cell: (one) => rate(one.success_rate) },
  { sort: "dead_letter_rate", header: "Dead letters", cell: (one) => rate(one.dead_letter_rate, true) },
  { sort: "retry_rate", header: "Retries", cell: (one) => rate(one.retry_rate) },
  { sort: "wait_p95", header: "Wait p95", cell: (one) => time(one.wait_p95) },
  { sort: "run_p95", header: "Run p95", cell: (one) => time(one.run_p95) },
  { sort: "run_seconds", header: "Run time", cell: (one) => time(one.run_seconds) },
  { sort: "cost_cents", header: "Cost", cell: (one) => money(one.cost_cents) },
];

interface GroupTableProps {
  data: Schemas["Insights"];
  by: "type" | "tenant";
  sort: Sort;
  up: boolean;
  onSort: (sort: Sort, up: boolean) => void;
}

/** Job types or tenants side by side; each leads to the jobs that ended in the time. */
export function GroupTable({ data, by, sort, up, onSort }: GroupTableProps) {
  const most = Math.max(1, ...data.groups.map((one) => one.finished));
  const head = (column: Sort, text: string, isFigure = true): ReactNode => (
    <th
      key={column}
      scope="col"
      className={cx(isFigure && styles.number)}
      aria-sort={sort === column ? (up ? "ascending" : "descending") : "none"}
    >
      <button type="button" className={styles.sort} onClick={() => onSort(column, sort === column && !up)}>
        {text}
        {sort === column && (up ? <ArrowUp size={12} aria-hidden /> : <ArrowDown size={12} aria-hidden />)}
      </button>
    </th>
  );
  return (
    <div className={styles.scroll}>
      <table className={styles.table} aria-label={by === "type" ? "By job type" : "By tenant"}>
        <thead>
          <tr>
            {head("name", by === "type" ? "Job type" : "Tenant", false)}
            {head("finished", "Finished", false)}
            {COLUMNS.map((column) => head(column.sort, column.header))}
          </tr>
        </thead>
        <tbody>
          {sorted(data.groups, sort, up).map((one) => (
            <tr key={nameOf(one)}>
              <td>
                <JobsLink group={one} data={data} />
              </td>
              <td className={styles.counted}>
                <span className={styles.count} title={`${whole(one.enqueued)} enqueued, ${whole(one.attempts)} attempts`}>
                  {short(one.finished)}
                </span>
                <Bar group={one} most={most} />
              </td>
              {COLUMNS.map((column) => (
                <td key={column.sort} className={styles.number}>
                  {column.cell(one)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function JobsLink({ group, data }: { group: Group; data: Schemas["Insights"] }) {
  const ended = { finished_after: data.start, finished_before: data.end };
  return (
    <Link
      to="/jobs"
      search={(before) =>
        group.job_type === null
          ? { tenant: group.tenant ?? undefined, ...ended }
          : { tenant: before.tenant, job_type: group.job_type, ...ended }
      }
      className={styles.name}
      title="The jobs behind it"
    >
      {nameOf(group)}
    </Link>
  );
}

/** How many ended, and how, as a bar; the widest is the busiest. */
function Bar({ group, most }: { group: Group; most: number }) {
  const failed = group.failed + group.dead_lettered;
  const parts: readonly [number, string][] = [
    [group.succeeded, "--succeeded"],
    [failed, "--failed"],
    [group.canceled, "--line-strong"],
  ];
  return (
    <span
      className={styles.bar}
      role="img"
      aria-label={`${whole(group.succeeded)} succeeded, ${whole(failed)} failed, ${whole(group.canceled)} canceled`}
    >
      {parts.map(
        ([count, colour]) => count > 0 && <span key={colour} style={{ width: `${(100 * count) / most}%`, background: `var(${colour})` }} />,
      )}
    </span>
  );
}

function rate(value: number | null, isBad = false): ReactNode {
  if (value === null) return <span className="quiet">–</span>;
  return isBad && value > 0 ? <span className={styles.bad}>{percent(value)}</span> : percent(value);
}

function time(value: number | null): ReactNode {
  return value === null ? <span className="quiet">–</span> : seconds(value);
}
