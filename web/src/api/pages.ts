import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

interface PageOf<Item> {
  items: Item[];
  next_cursor?: string | null;
}

interface Cursor {
  cursor?: string;
}

interface PageOptions {
  /** Read again after events of these kinds. */
  live?: string[];
  refetchInterval?: number;
  enabled?: boolean;
  staleTime?: number;
  gcTime?: number;
  refetchOnWindowFocus?: boolean;
}

/** A list of the API, page by page: `read` asks for the page at a cursor. */
export function usePages<Item>(
  key: readonly unknown[],
  read: (at: Cursor) => Promise<PageOf<Item> | undefined>,
  { live = [], ...options }: PageOptions = {},
) {
  const pages = useInfiniteQuery({
    queryKey: key,
    queryFn: async ({ pageParam }) => (await read(pageParam === null ? {} : { cursor: pageParam })) ?? { items: [] },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    meta: { live },
    ...options,
  });
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.items), [pages.data]);
  return { ...pages, rows };
}
