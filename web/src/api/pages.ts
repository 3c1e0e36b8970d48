import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

interface PageOf<Item> {
  items: Item[];
  next_cursor?: string | null;
}

interface Cursor {
  cursor?: string;
}

/** A list of the API, page by page, read again after events and `every` so many milliseconds: `usePages(key, async (at) => (await client.GET(path, { params: { query: { ...query, ...at } } })).data)`. */
export function usePages<Item>(key: readonly unknown[], read: (at: Cursor) => Promise<PageOf<Item> | undefined>, live: string[], every?: number) {
  const pages = useInfiniteQuery({
    queryKey: key,
    queryFn: async ({ pageParam }) => (await read(pageParam === null ? {} : { cursor: pageParam })) ?? { items: [] },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    meta: { live },
    ...(every !== undefined && { refetchInterval: every }),
  });
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.items), [pages.data]);
  return { ...pages, rows };
}
