import { type ReactNode, useState } from "react";
import { useSeesAll } from "./session";
import { useTenant } from "./tenant";
import { TenantField } from "./TenantField";

interface TenantChoice {
  tenant: string | undefined;
  /** Whether it must be chosen first: nothing is Atlas's own by default. */
  isMissing: boolean;
  field: ReactNode;
}

/** Whose something new will be: of the tenant that the pages show, or of the one that is chosen in the form. */
export function useTenantField(): TenantChoice {
  const shown = useTenant();
  const [tenant, setTenant] = useState(shown);
  const isMissing = useSeesAll() && tenant === undefined;
  return { tenant, isMissing, field: <TenantField value={tenant} onChange={setTenant} none="(choose one)" /> };
}
