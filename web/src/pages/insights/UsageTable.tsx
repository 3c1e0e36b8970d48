import { useMemo } from "react";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { money, whole } from "@/format/numbers";
import { duration } from "@/format/time";
import { shortId } from "@/format/words";
import { useTenant } from "@/session/tenant";
import { useTenantSlugs } from "@/session/tenantSlugs";

type Usage = Schemas["Usage"];

/** Time and cost of finished attempts by tenant and job type: what a bill is made of. */
export function UsageTable({ start, end }: { start: string | undefined; end: string | undefined }) {
  const tenant = useTenant();
  const pages = useList("/api/v1/usage", { tenant, start, end });
  const slugs = useTenantSlugs(useMemo(() => (pages.rows ?? []).map((one) => one.tenant_id), [pages.rows]));
  const figure = (key: keyof Usage, header: string, shown: (one: Usage) => string): Column<Usage> => ({
    key,
    header,
    width: "92px",
    align: "end",
    wideOnly: key !== "runs" && key !== "cost_cents",
    cell: shown,
  });
  const columns: Column<Usage>[] = [
    ...(slugs === null
      ? []
      : [
          {
            key: "tenant",
            header: "Tenant",
            width: "minmax(80px, 1fr)",
            text: (one: Usage) => slugs.get(one.tenant_id) ?? shortId(one.tenant_id),
            look: "id" as const,
          },
        ]),
    { key: "type", header: "Job type", width: "minmax(120px, 2fr)", text: (one) => one.job_type, look: "mono" },
    figure("runs", "Attempts", (one) => whole(one.runs)),
    figure("succeeded", "Succeeded", (one) => whole(one.succeeded)),
    figure("failed", "Failed", (one) => whole(one.failed)),
    figure("timed_out", "Timed out", (one) => whole(one.timed_out)),
    figure("lost", "Lost", (one) => whole(one.lost)),
    figure("queue_seconds", "In queue", (one) => duration(one.queue_seconds * 1000)),
    figure("run_seconds", "Run time", (one) => duration(one.run_seconds * 1000)),
    figure("cost_cents", "Cost", (one) => money(one.cost_cents)),
  ];
  return (
    <DataTable
      label="Usage"
      inline
      rows={pages.rows}
      rowKey={(one) => `${one.tenant_id} ${one.job_type}`}
      columns={columns}
      query={pages}
      empty={
        <EmptyState title="No attempt finished in this period" command="atlas usage">
          Usage is counted by the hour, within seconds.
        </EmptyState>
      }
    />
  );
}
