import { useNavigate, useSearch } from "@tanstack/react-router";
import { RotateCw, Trash2 } from "lucide-react";
import { useMemo, useState, type MouseEvent } from "react";
import { api, type Schemas } from "@/api/client";
import { Button, IconButton } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { ChoiceFilter, FilterChip } from "@/components/FilterChips";
import { Page } from "@/components/Page";
import { Time } from "@/components/Time";
import { plural, whole } from "@/format/numbers";
import { shortId } from "@/format/words";
import type { BulkVerb } from "@/pages/jobs/bulk";
import { BulkDialog } from "@/pages/jobs/BulkDialog";
import { BulkProgress } from "@/pages/jobs/BulkProgress";
import { MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useTenantSlugs } from "@/session/tenantSlugs";
import { Columns, shownOf, useHidden } from "@/views/Columns";
import { Views } from "@/views/Views";
import styles from "./DeadLetters.module.css";

type Group = Schemas["DeadLetterGroup"];
type Filter = Schemas["JobFilterBody"];

interface Asked {
  verb: BulkVerb;
  filter: Filter;
}

/** Jobs that failed after their last retry, by cause: retried or discarded together. */
export function DeadLettersPage() {
  const tenant = useTenant();
  const navigate = useNavigate({ from: "/dead-letters" });
  const manages = useCan(MANAGERS);
  const [asked, setAsked] = useState<Asked | null>(null);
  const query = api.useQuery(
    "get",
    "/api/v1/jobs/dead-letters",
    { params: { query: { tenant } } },
    { meta: { live: ["job"] }, refetchInterval: 30_000 },
  );
  const search = useSearch({ from: "/dead-letters" });
  const hidden = useHidden();
  const all = query.data?.items;
  const groups = all?.filter((group) => fits(search.job_type, group.job_type) && fits(search.error_type, group.error_type));
  const isFiltered = search.job_type !== undefined || search.error_type !== undefined;
  const slugs = useTenantSlugs(useMemo(() => (all ?? []).flatMap((group) => group.tenants.map((one) => one.tenant_id)), [all]));
  const columns = useMemo(
    () => columnsOf(manages ? (verb, group) => setAsked({ verb, filter: filterOf(group) }) : null, slugs),
    [manages, slugs],
  );
  const sum = groups?.reduce((total, group) => total + group.count, 0) ?? 0;
  const count = isFiltered ? sum : (query.data?.count ?? sum);
  const about = count > 0 && (
    <span className="quiet">
      {plural(count, "job")}, {count > sum ? "the newest " : ""}
      {plural(groups?.length ?? 0, "cause")}
    </span>
  );
  const retryAll = manages && count > 0 && !isFiltered && (
    <Button icon={<RotateCw size={14} aria-hidden />} onClick={() => setAsked({ verb: "retry", filter: { status: ["dead_letter"] } })}>
      Retry all
    </Button>
  );
  return (
    <Page
      title="Dead letters"
      fill
      about={about}
      actions={retryAll}
      filters={
        <>
          <GroupFilter label="Type" field="job_type" groups={all} />
          <GroupFilter label="Error type" field="error_type" groups={all} />
          <Columns columns={columns} />
          <Views />
        </>
      }
    >
      <BulkProgress />
      <DataTable
        label="Dead letters by cause"
        rows={groups}
        rowKey={keyOf}
        columns={shownOf(columns, hidden)}
        query={query}
        onRetry={manages ? (group) => setAsked({ verb: "retry", filter: filterOf(group) }) : undefined}
        empty={
          isFiltered ? (
            <EmptyState
              title="No dead letters match these filters"
              action={<Button onClick={() => void navigate({ search: ({ tenant }) => ({ tenant }) })}>Clear filters</Button>}
            />
          ) : (
            <EmptyState title="No dead letters">
              A job that fails after its last retry waits here until someone retries or discards it, grouped by cause.
            </EmptyState>
          )
        }
        onOpen={(group) => void navigate({ to: "/jobs", search: (before) => ({ tenant: before.tenant, ...listOf(group) }) })}
      />
      {asked !== null && (
        <BulkDialog
          verb={asked.verb}
          selection={{ filter: asked.filter }}
          onClose={() => setAsked(null)}
          onDone={() => void query.refetch()}
        />
      )}
    </Page>
  );
}

function fits(filter: readonly string[] | undefined, value: string | null): boolean {
  return filter === undefined || (value !== null && filter.includes(value));
}

/** A filter by what the groups have in a field. */
function GroupFilter({ label, field, groups }: { label: string; field: "job_type" | "error_type"; groups: readonly Group[] | undefined }) {
  const search = useSearch({ from: "/dead-letters" });
  const navigate = useNavigate({ from: "/dead-letters" });
  const chosen = search[field] ?? [];
  const known = new Set([...chosen, ...(groups ?? []).map((group) => group[field]).filter((one) => one !== null)]);
  const set = (next: string[]): void =>
    void navigate({ search: (before) => ({ ...before, [field]: next.length === 0 ? undefined : next }) });
  return (
    <>
      <ChoiceFilter label={label} values={[...known].sort()} chosen={chosen} onChange={set} />
      {chosen.map((one) => (
        <FilterChip key={one} name={label} value={one} onRemove={() => set(chosen.filter((other) => other !== one))} />
      ))}
    </>
  );
}

function keyOf(group: Group): string {
  return JSON.stringify([group.job_type, group.error_type, group.error_pattern]);
}

/** The filter of a group, as the list of jobs has it in its address. */
function listOf(group: Group) {
  return {
    status: ["dead_letter" as const],
    job_type: group.job_type,
    error_type: group.error_type ?? undefined,
    error_pattern: group.error_pattern ?? undefined,
  };
}

/** The same for an action. An empty text is an error without a type or a message: null would be any. */
function filterOf(group: Group): Filter {
  return {
    status: ["dead_letter"],
    job_type: group.job_type,
    error_type: group.error_type ?? "",
    error_pattern: group.error_pattern ?? "",
  };
}

type Slugs = ReadonlyMap<string, string> | null;

/** "acme 12, shop 3 and 4 more" */
function tenantsOf(group: Group, slugs: ReadonlyMap<string, string>): string {
  const names = group.tenants.map(({ tenant_id: id, count }) => `${slugs.get(id) ?? shortId(id)} ${whole(count)}`);
  const others = group.tenant_count - group.tenants.length;
  return `${names.join(", ")}${others > 0 ? ` and ${whole(others)} more` : ""}`;
}

function columnsOf(ask: ((verb: BulkVerb, group: Group) => void) | null, slugs: Slugs): Column<Group>[] {
  const columns: Column<Group>[] = [
    { key: "count", header: "Jobs", width: "72px", align: "end", cell: (group) => <strong>{whole(group.count)}</strong> },
    {
      key: "type",
      header: "Type",
      width: "minmax(176px, 1.6fr)",
      cell: (group) => (
        <span className="truncate" title={group.job_type}>
          {group.job_type}
        </span>
      ),
    },
    ...(slugs === null
      ? []
      : [
          {
            key: "tenants",
            header: "Tenants",
            width: "minmax(96px, 1fr)",
            wideOnly: true,
            cell: (group: Group) => (
              <span className="truncate quiet" title={tenantsOf(group, slugs)}>
                {tenantsOf(group, slugs)}
              </span>
            ),
          },
        ]),
    { key: "error", header: "Error", width: "minmax(180px, 2.4fr)", cell: (group) => <Cause group={group} /> },
    { key: "first", header: "First", width: "96px", align: "end", wideOnly: true, cell: (group) => <Time at={group.first_at} /> },
    { key: "last", header: "Last", width: "96px", align: "end", wideOnly: true, cell: (group) => <Time at={group.last_at} /> },
  ];
  if (ask === null) return columns;
  return [
    ...columns,
    { key: "actions", header: "", width: "156px", align: "end", wideOnly: true, cell: (group) => <Actions group={group} ask={ask} /> },
  ];
}

function Cause({ group }: { group: Group }) {
  const message = group.message ?? "No message was recorded";
  const words = group.error_pattern ?? message;
  // Most messages begin with the type.
  const rest = group.error_type !== null && words.startsWith(`${group.error_type}: `) ? words.slice(group.error_type.length + 2) : words;
  return (
    <span className="truncate" title={message}>
      {group.error_type !== null && <span className={styles.kind}>{group.error_type}</span>} {rest}
      {group.unknown_outcomes > 0 && <span className="quiet"> · {whole(group.unknown_outcomes)} may have done their work</span>}
    </span>
  );
}

function Actions({ group, ask }: { group: Group; ask: (verb: BulkVerb, group: Group) => void }) {
  const on = (verb: BulkVerb) => (event: MouseEvent) => {
    event.stopPropagation();
    ask(verb, group);
  };
  return (
    <>
      <Button
        kind="ghost"
        icon={<RotateCw size={14} aria-hidden />}
        onClick={on("retry")}
        aria-label={`Retry ${whole(group.count)} of ${group.job_type}`}
      >
        Retry
      </Button>
      <IconButton label={`Discard ${whole(group.count)} of ${group.job_type}`} onClick={on("discard")}>
        <Trash2 size={14} aria-hidden />
      </IconButton>
    </>
  );
}
