import { Link } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { useState, type SyntheticEvent } from "react";
import { api } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { ChoiceFilter, FilterChip, FilterMenu, TextFilter } from "@/components/FilterChips";
import { StatusChip } from "@/components/StatusChip";
import { useChosenInView } from "@/components/Tabs";
import { SPANS, type TimeRange } from "@/components/timeRange";
import { TimeRangeMenu } from "@/components/TimeRangeFilter";
import { short } from "@/format/numbers";
import { clockTime } from "@/format/time";
import { capitalized, cx, shortId, spaced } from "@/format/words";
import { useTenant } from "@/session/tenant";
import styles from "./Jobs.module.css";
import { type JobsSearch, searchedFor, SOURCES, STATUSES, TEXT_FILTERS, type TextFilterName } from "./search";

const NAMES: Record<TextFilterName, string> = {
  job_type: "Type",
  correlation_id: "Correlation",
  id_prefix: "Id",
  worker_id: "Worker",
  host_id: "Host",
  parent_run_id: "Run",
  group_id: "Group",
  error_type: "Error type",
  error_text: "Error",
  error_pattern: "Error like",
  created_after: "Created after",
  created_before: "Created before",
  finished_after: "Finished after",
  finished_before: "Finished before",
};

interface FilterProps {
  search: JobsSearch;
  onChange: (changes: Partial<JobsSearch>) => void;
}

/** Search, the filters that are set, and the menus that set others. */
export function JobFilterLine({ search, onChange, onOpen }: FilterProps & { onOpen: (id: string) => void }) {
  return (
    <>
      <SearchField onChange={onChange} onOpen={onOpen} />
      {search.status !== undefined &&
        search.status.length > 1 &&
        search.status.map((status) => (
          <FilterChip
            key={status}
            name="Status"
            value={spaced(status)}
            onRemove={() => onChange({ status: search.status?.filter((one) => one !== status) })}
          />
        ))}
      {search.source !== undefined && <FilterChip name="Source" value={search.source} onRemove={() => onChange({ source: undefined })} />}
      {search.last !== undefined && (
        <FilterChip name="Created" value={SPANS[search.last].label.toLowerCase()} onRemove={() => onChange({ last: undefined })} />
      )}
      {search.order !== undefined && <FilterChip name="Order" value="by finish time" onRemove={() => onChange({ order: undefined })} />}
      {TEXT_FILTERS.map((name) => {
        const value = search[name];
        return value === undefined ? null : (
          <FilterChip key={name} name={NAMES[name]} value={shown(name, value)} onRemove={() => onChange({ [name]: undefined })} />
        );
      })}
      <ChoiceFilter
        label="Status"
        values={STATUSES}
        chosen={search.status ?? []}
        onChange={(status) => onChange({ status: status.length === 0 ? undefined : status, order: undefined })}
        show={(status) => <StatusChip status={status} />}
      />
      <TypeFilter onSet={(job_type) => onChange({ job_type })} />
      <FilterMenu label="Source">
        {(close) => <Options values={SOURCES.map((one) => [one, one] as const)} onSet={(source) => (onChange({ source }), close())} />}
      </FilterMenu>
      <TimeRangeMenu unset="Time" onChange={(range) => onChange(createdIn(range))} />
      {search.order === undefined && canOrderByEnd(search) && (
        <FilterMenu label="Order">
          {(close) => (
            <Options values={[["By finish time, newest first", "ended" as const]]} onSet={(order) => (onChange({ order }), close())} />
          )}
        </FilterMenu>
      )}
      <TextFilter label="Worker" placeholder="host:pid:id" onSet={(worker_id) => onChange({ worker_id })} />
      <TextFilter label="Error" placeholder="A part of the message" onSet={(error_text) => onChange({ error_text })} />
    </>
  );
}

/** A span stays one: it ends whenever the list is read. */
function createdIn({ last, since, until }: TimeRange): Pick<JobsSearch, "last" | "created_after" | "created_before"> {
  return { last, created_after: since, created_before: until };
}

/** What succeeded or is active is listed by its creation alone. */
function canOrderByEnd({ status }: JobsSearch): boolean {
  return status !== undefined && status.every((one) => one === "failed" || one === "dead_letter" || one === "canceled");
}

/** Finds a job by its id, the beginning of it, or a correlation id. */
function SearchField({ onChange, onOpen }: { onChange: FilterProps["onChange"]; onOpen: (id: string) => void }) {
  const [typed, setTyped] = useState("");
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    const found = searchedFor(typed);
    if (found === null) return;
    if ("id" in found) onOpen(found.id);
    else onChange({ id_prefix: undefined, correlation_id: undefined, ...found });
    setTyped("");
  };
  return (
    <form role="search" className={styles.search} onSubmit={submit}>
      <Search size={14} aria-hidden />
      <input
        data-page-search
        aria-label="Id, beginning of an id, or correlation id"
        placeholder="Id, prefix or correlation"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </form>
  );
}

function TypeFilter({ onSet }: { onSet: (type: string) => void }) {
  const [typed, setTyped] = useState("");
  const { data } = api.useQuery("get", "/api/v1/job-types", { params: { query: { limit: MAX_LISTED } } }, { staleTime: 60_000 });
  const keys = (data?.items ?? []).map((one) => one.key).filter((key) => key.toLowerCase().includes(typed.toLowerCase()));
  return (
    <FilterMenu label="Type">
      {(close) => {
        const set = (key: string): void => {
          if (key !== "") onSet(key);
          setTyped("");
          close();
        };
        return (
          <form className={styles.types} onSubmit={(event) => (event.preventDefault(), set(typed.trim()))}>
            <div className={styles.search}>
              <input aria-label="Type" placeholder="Type" value={typed} onChange={(event) => setTyped(event.target.value)} />
            </div>
            <Options values={keys.map((key) => [key, key] as const)} onSet={set} />
          </form>
        );
      }}
    </FilterMenu>
  );
}

function Options<Value>({ values, onSet }: { values: readonly (readonly [string, Value])[]; onSet: (value: Value) => void }) {
  return (
    <ul>
      {values.map(([label, value]) => (
        <li key={label}>
          <button type="button" className={styles.option} onClick={() => onSet(value)}>
            {label}
          </button>
        </li>
      ))}
    </ul>
  );
}

function shown(name: TextFilterName, value: string): string {
  if (name.endsWith("_after") || name.endsWith("_before")) return clockTime(new Date(value));
  return name === "host_id" || name === "parent_run_id" || name === "group_id" ? shortId(value) : value;
}

/** A tab for each status, with how many jobs have it. */
export function StatusTabs({ search }: { search: JobsSearch }) {
  const tenant = useTenant();
  const { data } = api.useQuery(
    "get",
    "/api/v1/jobs/summary",
    { params: { query: { tenant } } },
    { meta: { live: ["job"] }, refetchInterval: 30_000 },
  );
  const counts = data?.counts;
  const sum = counts === undefined ? undefined : STATUSES.reduce((total, status) => total + (counts[status] ?? 0), 0);
  const only: string | undefined = search.status?.length === 1 ? search.status[0] : undefined;
  const tabs = [
    { status: undefined, label: "All", count: sum },
    ...STATUSES.map((status) => ({ status, label: capitalized(spaced(status)), count: counts?.[status] })),
  ];
  const line = useChosenInView<HTMLElement>(only);
  return (
    <nav ref={line} className={cx(styles.tabs, "line-of-choices")} aria-label="Jobs by status">
      {tabs.map(({ status, label, count }) => (
        <Link
          key={label}
          from="/jobs"
          to="/jobs"
          search={(before) => ({
            ...before,
            status: status === undefined ? undefined : [status],
            order: undefined,
            job: undefined,
            tab: undefined,
          })}
          className={styles.tab}
          aria-current={status === only && (status !== undefined || search.status === undefined) ? "true" : undefined}
        >
          {label}
          {count !== undefined && (
            <span
              className={styles.count}
              title={status !== undefined && data?.estimated.includes(status) === true ? "Estimated" : undefined}
            >
              {short(count)}
            </span>
          )}
        </Link>
      ))}
    </nav>
  );
}
