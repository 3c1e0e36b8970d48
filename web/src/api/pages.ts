import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { client } from "./client";
import type { paths } from "./schema";

type ListOf<Path extends keyof paths> = paths[Path] extends { get: { responses: { 200: { content: { "application/json": infer Page } } } } }
  ? Page extends { items: (infer Item)[]; next_cursor?: string | null }
    ? Item
    : never
  : never;

/** The addresses of lists that are read page by page. */
type ListPath = { [Path in keyof paths]: [ListOf<Path>] extends [never] ? never : Path }[keyof paths];
type Filters<Path extends ListPath> = paths[Path] extends { get: { parameters: { query?: infer Query } } } ? Query & object : never;

interface Page<Item> {
  items: Item[];
  next_cursor?: string | null;
}

interface ListOptions {
  /** What the address names. */
  path?: Record<string, string>;
  /** Read again after events of these kinds. */
  live?: string[];
  refetchInterval?: number;
  enabled?: boolean;
  staleTime?: number;
  gcTime?: number;
  refetchOnWindowFocus?: boolean;
}

const PAGE = 100;

/** The longest page of a list that the API returns. */
export const MAX_LISTED = 200;

/** A list of the API, page by page. */
export function useList<Path extends ListPath>(
  address: Path,
  filters: Filters<Path>,
  { path = {}, live = [], ...options }: ListOptions = {},
) {
  const get = client.GET as (address: Path, init: object) => Promise<{ data?: Page<ListOf<Path>> }>;
  const pages = useInfiniteQuery({
    queryKey: ["get", address, filters, path],
    queryFn: async ({ pageParam: cursor }) => {
      const query = { limit: PAGE, ...filters, ...(cursor !== null && { cursor }) };
      return (await get(address, { params: { path, query } })).data ?? { items: [] };
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    meta: { live },
    ...options,
  });
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.items), [pages.data]);
  return { ...pages, rows };
}
