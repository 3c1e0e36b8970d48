import { useMemo } from "react";
import type { Column } from "@/components/DataTable";
import { EndKept } from "@/components/Id";
import { shortId } from "@/format/words";
import { useTenantSlugs } from "./tenantSlugs";

interface Owned {
  tenant_id: string | null;
}

/** The columns of a list, with the tenant of each row where those of all tenants are listed. */
export function useWithTenant<Row extends Owned>(
  columns: readonly Column<Row>[],
  rows: readonly Row[] | undefined,
): readonly Column<Row>[] {
  const slugs = useTenantSlugs(useMemo(() => (rows ?? []).map((row) => row.tenant_id), [rows]));
  return useMemo(() => {
    if (slugs === null) return columns;
    const column: Column<Row> = {
      key: "tenant",
      header: "Tenant",
      width: "minmax(84px, 0.8fr)",
      wideOnly: true,
      cell: ({ tenant_id: id }) => <EndKept text={id === null ? "all" : (slugs.get(id) ?? shortId(id))} className="quiet" />,
    };
    return [...columns.slice(0, 2), column, ...columns.slice(2)];
  }, [columns, slugs]);
}
