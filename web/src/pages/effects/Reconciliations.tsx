import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { DataTable, type Column } from "@/components/DataTable";
import { SidePanel } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Fact, Facts } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { whole } from "@/format/numbers";
import { spaced } from "@/format/words";

type Report = Schemas["EffectReport"];

const REPORTS = "/api/v1/system/effect-reports";
const MEANINGS: Record<string, string> = {
  twice: "made more than once by the provider",
  not_there: "done here, not at the provider",
  not_here: "at the provider, not in the ledger",
  found: "unknown here, made by the provider",
  refused_here: "refused here, made by the provider",
  other_reference: "made by the provider under another reference",
};

const COLUMNS: readonly Column<Report>[] = [
  { key: "state", header: "State", width: "124px", cell: (report) => <State report={report} /> },
  { key: "provider", header: "Provider", width: "minmax(120px, 1fr)", text: (report) => report.provider },
  { key: "differences", header: "Differences", width: "96px", align: "end", cell: (report) => whole(report.differences) },
  { key: "doubt", header: "In doubt", width: "88px", align: "end", wideOnly: true, cell: (report) => whole(report.in_doubt) },
  { key: "effects", header: "Effects", width: "88px", align: "end", wideOnly: true, cell: (report) => whole(report.effects) },
  { key: "entries", header: "Entries", width: "88px", align: "end", wideOnly: true, cell: (report) => whole(report.entries) },
  { key: "settled", header: "Settled", width: "88px", align: "end", wideOnly: true, cell: (report) => whole(report.settled) },
  { key: "since", header: "Since", width: "104px", align: "end", wideOnly: true, cell: (report) => <Time at={report.since} /> },
  { key: "finished", header: "Compared", width: "104px", align: "end", cell: (report) => <Time at={report.finished_at} /> },
];

function meaningOf(kind: string): string {
  return MEANINGS[kind] ?? spaced(kind);
}

function State({ report }: { report: Report }) {
  return report.differences === 0 ? <StatusChip status="done" label="they agree" /> : <StatusChip status="failed" label="they differ" />;
}

/** The last comparison of the effect ledger with each provider. */
export function Reconciliations({ open, onOpen }: { open: string | undefined; onOpen: (provider: string | undefined) => void }) {
  const { rows, ...query } = useList(REPORTS, {}, { refetchInterval: 30_000 });
  const report = rows?.find((one) => one.provider === open);
  return (
    <>
      <DataTable
        label="Reconciliations"
        rows={rows}
        rowKey={(one) => one.provider}
        columns={COLUMNS}
        query={query}
        onOpen={(one) => onOpen(one.provider)}
        openKey={open}
        empty={
          <EmptyState title="No reconciliation yet" command="atlas effects reconcile stripe --app shop.jobs">
            A reconciliation compares the effects of a provider with what the provider lists, both ways.
          </EmptyState>
        }
      />
      {report !== undefined && (
        <SidePanel title={report.provider} about={<State report={report} />} onClose={() => onOpen(undefined)}>
          <Facts>
            {Object.entries(report.counts).map(([kind, count]) => (
              <Fact key={kind} name={meaningOf(kind)}>
                {whole(count)}
              </Fact>
            ))}
            <Fact name="unknown here, not listed by the provider">{whole(report.in_doubt)}</Fact>
          </Facts>
          <p>
            <Link to="/audit" search={({ tenant }) => ({ tenant, action: ["EFFECTS_RECONCILED"], entity_id: report.provider })}>
              Each difference, in the audit log
            </Link>
          </p>
        </SidePanel>
      )}
    </>
  );
}
