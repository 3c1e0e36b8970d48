import { api } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { Field, Select } from "@/components/Form";
import { useSeesAll } from "./session";

interface TenantFieldProps {
  value: string | undefined;
  onChange: (tenant: string | undefined) => void;
  /** What it means that none is chosen. */
  none: string;
}

/** Whose it will be, for those who act for all tenants. Others act for their own, and see nothing here. */
export function TenantField({ value, onChange, none }: TenantFieldProps) {
  const seesAll = useSeesAll();
  const tenants = api.useQuery(
    "get",
    "/api/v1/tenants",
    { params: { query: { limit: MAX_LISTED } } },
    { enabled: seesAll, staleTime: 60_000 },
  );
  if (!seesAll) return null;
  return (
    <Field label="Tenant">
      {(control) => (
        <Select {...control} value={value ?? ""} onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}>
          <option value="">{none}</option>
          {tenants.data?.items.map((one) => (
            <option key={one.id} value={one.slug}>
              {one.name}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}
