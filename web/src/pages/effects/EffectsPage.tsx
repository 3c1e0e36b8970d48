import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useList } from "@/api/pages";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Select } from "@/components/Form";
import { visible } from "@/format/visible";
import { Page } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Tabs } from "@/components/Tabs";
import { Time } from "@/components/Time";
import { capitalized, shortId } from "@/format/words";
import { useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { Reconciliations } from "./Reconciliations";
import { STATES, type EffectsSearch } from "./search";
import { SettleButtons, type Effect } from "./SettleDialog";
import styles from "./Effects.module.css";

const COLUMNS: Column<Effect>[] = [
  { key: "state", header: "State", width: "112px", cell: (one) => <StatusChip status={one.state} /> },
  { key: "name", header: "Name", width: "minmax(120px, 1fr)", text: (one) => visible(one.name) },
  {
    key: "job",
    header: "Job",
    width: "minmax(120px, 1fr)",
    cell: (one) => (
      <Link to="/jobs/$jobId" params={{ jobId: one.job_id }} search={({ tenant }) => ({ tenant })} className="truncate">
        {visible(one.job_type)} {shortId(one.job_id)}
      </Link>
    ),
  },
  { key: "tenant", header: "Tenant", width: "112px", wideOnly: true, text: (one) => one.tenant, look: "id" },
  {
    key: "reference",
    header: "Reference",
    width: "minmax(120px, 1fr)",
    wideOnly: true,
    text: (one) => visible([one.reference, ...one.other_references].filter(Boolean).join(", ")),
  },
  { key: "called", header: "Called", width: "104px", align: "end", wideOnly: true, cell: (one) => <Time at={one.intended_at} /> },
  { key: "settle", header: "", width: "232px", align: "end", cell: (one) => <SettleButtons effect={one} /> },
];

/** Calls of providers outside of the database, and how they compare with what the providers list. */
export function EffectsPage() {
  const { tab = "effects", open } = useSearch({ from: "/effects" });
  const navigate = useNavigate({ from: "/effects" });
  const seesAll = useSeesAll();
  const show = (change: EffectsSearch): void => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const effects = { key: "effects" as const, label: "Effects", content: () => <Effects onChange={show} /> };
  const reconciliations = {
    key: "reconciliations" as const,
    label: "Reconciliations",
    content: () => <Reconciliations open={open} onOpen={(provider) => show({ open: provider })} />,
  };
  return (
    <Page title="Effects" fill>
      <Tabs
        label="Effects"
        fill
        value={seesAll ? tab : "effects"}
        onChange={(next) => show({ tab: next, open: undefined })}
        tabs={seesAll ? [effects, reconciliations] : [effects]}
      />
    </Page>
  );
}

/** First those of which nobody knows whether they were made. */
function Effects({ onChange }: { onChange: (change: EffectsSearch) => void }) {
  const { state = "unknown", provider } = useSearch({ from: "/effects" });
  const pages = useList(
    "/api/v1/effects",
    { tenant: useTenant(), state: state === "all" ? undefined : state, provider },
    { live: ["job"], refetchInterval: 30_000 },
  );
  return (
    <>
      <div className={styles.filters}>
        <Select aria-label="State" value={state} onChange={(event) => onChange({ state: event.target.value as EffectsSearch["state"] })}>
          {[...STATES, "all" as const].map((each) => (
            <option key={each} value={each}>
              {capitalized(each)}
            </option>
          ))}
        </Select>
      </div>
      <DataTable
        label="Effects"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={COLUMNS}
        query={pages}
        empty={
          <EmptyState title={state === "unknown" ? "No effect is in doubt" : "No such effects"} command="atlas effects list">
            If Atlas cannot tell whether a provider was called, the job waits here until a person settles it.
          </EmptyState>
        }
      />
    </>
  );
}
