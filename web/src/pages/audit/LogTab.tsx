import { useNavigate, useSearch } from "@tanstack/react-router";
import { Lock, Search } from "lucide-react";
import { useMemo, useState, type ReactNode, type SyntheticEvent } from "react";
import { Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { ChoiceFilter, FilterChip, TextFilter } from "@/components/FilterChips";
import { EndKept, Id } from "@/components/Id";
import { NO_RANGE } from "@/components/timeRange";
import { TimeRangeFilter } from "@/components/TimeRangeFilter";
import { Moment } from "@/components/Time";
import { exactTime } from "@/format/time";
import { plural, whole } from "@/format/numbers";
import { shortId } from "@/format/words";
import { useTenantSlugs } from "@/session/tenantSlugs";
import { Columns, shownOf, useHidden } from "@/views/Columns";
import { Views } from "@/views/Views";
import styles from "./Audit.module.css";
import { EntryPanel } from "./EntryPanel";
import { type Entry, isWhole, type Seal, useLog, useSeals } from "./log";
import { type AuditSearch, LEVELS } from "./search";

/** A row of the ledger: an entry, or the line above the entries of one seal. */
type Line = { key: string; entry: Entry } | { key: string; seal: number | null };

/** The log, newest first, with a line for each seal. It follows what is recorded. */
export function LogTab() {
  const search = useSearch({ from: "/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const { pages, entries } = useLog(search);
  const [paused, setPaused] = useState<number | null>(null);
  const set = (change: Partial<AuditSearch>): void => void navigate({ search: (before) => ({ ...before, ...change }) });

  const at =
    paused === null
      ? 0
      : Math.max(
          0,
          entries.findIndex((one) => one.id === paused),
        );
  const shown = useMemo(() => entries.slice(at), [entries, at]);
  const isAll = isWhole(search);
  const seals = useSeals(isAll ? shown : []);
  const lines = useMemo(() => (isAll ? withSeals(shown) : shown.map((entry) => ({ key: String(entry.id), entry }))), [shown, isAll]);
  const tenants = useTenantSlugs(useMemo(() => shown.map((one) => one.tenant_id), [shown]));
  const columns = useColumns(!isAll, tenants);
  const hidden = useHidden();

  return (
    <div className={styles.log}>
      <div className={styles.filters}>
        <SearchField value={search.text ?? ""} onSet={(text) => set({ text: text === "" ? undefined : text })} />
        <ChoiceFilter
          label="Level"
          values={LEVELS}
          chosen={search.level ?? []}
          onChange={(level) => set({ level: level.length === 0 ? undefined : level })}
        />
        <TextFilter
          label="Action"
          placeholder="JOB_FAILED, JOB_CANCELED"
          onSet={(typed) => set({ action: [...new Set([...(search.action ?? []), ...actionsOf(typed)])] })}
        />
        <label className={styles.people}>
          <input
            type="checkbox"
            checked={search.people === true}
            onChange={(event) => set({ people: event.target.checked || undefined })}
          />
          People only
        </label>
        <TextFilter label="Actor" placeholder="ann@example.com" onSet={(actor_id) => set({ actor_id })} />
        <TextFilter label="Subject" placeholder="its id" onSet={(entity_id) => set({ entity_id })} />
        <TimeRangeFilter range={search} unset="Time" onChange={set} />
        <Chips search={search} set={set} />
        <Columns columns={columns} />
        <Views />
        <Follow paused={paused !== null} behind={at} onPause={() => setPaused(entries[0]?.id ?? 0)} onFollow={() => setPaused(null)} />
      </div>
      <DataTable<Line>
        label="audit log"
        rows={pages.isSuccess ? lines : undefined}
        rowKey={(line) => line.key}
        columns={shownOf(columns, hidden)}
        band={(line) =>
          "entry" in line ? undefined : <SealLine n={line.seal} seal={line.seal === null ? undefined : seals.get(line.seal)} />
        }
        query={pages}
        openKey={search.row}
        onOpen={(line) => "entry" in line && set({ row: line.key === search.row ? undefined : line.key })}
        empty={
          <Nothing
            filtered={!isAll}
            onClear={() =>
              set({
                text: undefined,
                action: undefined,
                level: undefined,
                people: undefined,
                actor_id: undefined,
                entity_type: undefined,
                entity_id: undefined,
                ...NO_RANGE,
              })
            }
          />
        }
      />
      {search.row !== undefined && <EntryPanel key={search.row} id={Number(search.row)} onClose={() => set({ row: undefined })} />}
    </div>
  );
}

/** The actions of a list that was typed, between commas or blanks. */
function actionsOf(typed: string): string[] {
  return typed
    .toUpperCase()
    .split(/[\s,;]+/)
    .filter((action) => action !== "");
}

/** A line before the rows of each seal, which stand together. */
function withSeals(entries: Entry[]): Line[] {
  const lines: Line[] = [];
  let before: number | null | undefined;
  for (const entry of entries) {
    if (entry.seal !== before) lines.push({ key: `seal ${entry.seal ?? "none"} ${entry.id}`, seal: entry.seal });
    lines.push({ key: String(entry.id), entry });
    before = entry.seal;
  }
  return lines;
}

function SealLine({ n, seal }: { n: number | null; seal: Seal | undefined }) {
  if (n === null) return <span className={styles.unsealed}>not sealed yet</span>;
  return (
    <span className={styles.seal}>
      <Lock size={12} aria-hidden />
      sealed #{whole(n)}
      {seal !== undefined && ` · ${plural(seal.rows, "row")} · root ${seal.root.slice(0, 12)}…`}
    </span>
  );
}

function useColumns(withSeal: boolean, tenants: ReadonlyMap<string, string> | null): Column<Line>[] {
  return useMemo(() => {
    const cell = (show: (entry: Entry) => ReactNode) => (line: Line) => ("entry" in line ? show(line.entry) : null);
    const columns: (Column<Line> | false)[] = [
      {
        key: "time",
        header: "Time",
        width: "184px",
        cell: cell((one) => (
          <Moment at={one.created_at} className="mono">
            {exactTime(new Date(one.created_at))}
          </Moment>
        )),
      },
      {
        key: "actor",
        header: "Actor",
        width: "minmax(120px, 1fr)",
        wideOnly: true,
        cell: cell((one) => (
          <span className="truncate" title={`${one.actor_type} ${one.actor_id}`}>
            <EndKept text={one.actor_id} className="" />
          </span>
        )),
      },
      {
        key: "action",
        header: "Action",
        width: "minmax(150px, 1.4fr)",
        cell: cell((one) => (
          <span className={styles.action} data-level={one.level}>
            {one.action}
          </span>
        )),
      },
      {
        key: "entity",
        header: "Subject",
        width: "minmax(216px, 1fr)",
        wideOnly: true,
        cell: cell((one) => (
          <>
            <span className="quiet truncate">{one.entity_type}</span> <Id value={one.entity_id} />
          </>
        )),
      },
      {
        key: "message",
        header: "Message",
        width: "minmax(160px, 2fr)",
        wideOnly: true,
        cell: cell((one) => <span className="truncate">{one.message}</span>),
      },
      tenants !== null && {
        key: "tenant",
        header: "Tenant",
        width: "110px",
        wideOnly: true,
        cell: cell((one) => (
          <EndKept text={one.tenant_id === null ? "none" : (tenants.get(one.tenant_id) ?? shortId(one.tenant_id))} className="quiet" />
        )),
      },
      withSeal && {
        key: "seal",
        header: "Seal",
        width: "84px",
        align: "end" as const,
        cell: cell((one) => <span className="mono quiet">{one.seal === null ? "waits" : `#${one.seal}`}</span>),
      },
    ];
    return columns.filter((one) => one !== false);
  }, [withSeal, tenants]);
}

function SearchField({ value, onSet }: { value: string; onSet: (value: string) => void }) {
  const [text, setText] = useState(value);
  return (
    <form
      role="search"
      className={styles.search}
      onSubmit={(event: SyntheticEvent) => {
        event.preventDefault();
        onSet(text.trim());
      }}
    >
      <Search size={14} aria-hidden />
      <input
        type="search"
        data-page-search
        aria-label="Search the audit log"
        placeholder="Search actions, subjects, actors, messages"
        maxLength={200}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
    </form>
  );
}

function Chips({ search, set }: { search: AuditSearch; set: (change: Partial<AuditSearch>) => void }) {
  const actions = search.action ?? [];
  const single: [keyof AuditSearch, string, string | undefined][] = [
    ["text", "Text", search.text],
    ["actor_id", "Actor", search.actor_id],
    ["entity_type", "Kind", search.entity_type],
    ["entity_id", "Subject", search.entity_id],
  ];
  return (
    <>
      {(search.level ?? []).map((level) => (
        <FilterChip key={level} name="Level" value={level} onRemove={() => set({ level: search.level?.filter((one) => one !== level) })} />
      ))}
      {actions.map((action) => (
        <FilterChip
          key={action}
          name="Action"
          value={action}
          onRemove={() => set({ action: actions.length === 1 ? undefined : actions.filter((one) => one !== action) })}
        />
      ))}
      {single.map(
        ([name, label, value]) =>
          value !== undefined && <FilterChip key={name} name={label} value={value} onRemove={() => set({ [name]: undefined })} />,
      )}
    </>
  );
}

/** New rows appear at the top; paused, they are counted instead, so that nothing moves under the reader's eyes. */
function Follow({ paused, behind, onPause, onFollow }: { paused: boolean; behind: number; onPause: () => void; onFollow: () => void }) {
  if (!paused) {
    return (
      <Button kind="ghost" onClick={onPause} className={styles.follow}>
        Following · pause
      </Button>
    );
  }
  return (
    <Button onClick={onFollow} className={styles.follow}>
      {behind === 0 ? "Paused · follow" : `${whole(behind)} new · follow`}
    </Button>
  );
}

function Nothing({ filtered, onClear }: { filtered: boolean; onClear: () => void }) {
  if (filtered) {
    return (
      <EmptyState title="No audit rows match these filters" action={<Button onClick={onClear}>Clear the filters</Button>}>
        Filters search all rows that this tenant may read.
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No audit rows yet" command='atlas enqueue EMAIL_SEND --tenant demo --input &apos;{"to": "ann@example.com"}&apos;'>
      Every change of a job, a workflow or a setting leaves a row here that cannot be changed afterwards.
    </EmptyState>
  );
}
