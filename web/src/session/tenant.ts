import { useSearch } from "@tanstack/react-router";

/** The tenant that an operator has chosen in the top bar, as `?tenant=`; undefined for all of them.
 * Pages pass it on: `params: { query: { tenant: useTenant() } }`. */
export function useTenant(): string | undefined {
  return useSearch({ strict: false, select: (search) => search.tenant });
}
