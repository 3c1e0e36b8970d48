import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { client } from "@/api/client";
import { isStatus } from "@/api/problem";
import { useTenant } from "@/session/tenant";
import { placed, readDocument, type FieldReason, type Mistake } from "./editor/problems";

/** So long after the last key the text is checked. */
const PAUSE_MS = 300;

export interface Checked {
  /** What the text holds; null while it is not JSON. */
  document: Record<string, unknown> | null;
  mistakes: readonly Mistake[];
  /** `stale`: what is shown is of an older text; `unknown`: the server did not answer. */
  state: "stale" | "wrong" | "ok" | "unknown";
  error: unknown;
}

/** A text after a pause in typing. */
function useRested(text: string): string {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return rested;
}

/** Checks a text as it is typed: here whether it is JSON, the rest by the server's own checker. `refused` is what publishing found. */
export function useChecked(text: string, refused: readonly FieldReason[]): Checked {
  const tenant = useTenant();
  const rested = useRested(text);
  const read = useMemo(() => readDocument(rested), [rested]);
  const { document } = read;
  const query = useQuery({
    queryKey: ["workflow-check", tenant, rested],
    queryFn: async ({ signal }) =>
      (await client.POST("/api/v1/workflows/check", { params: { query: { tenant } }, body: { document: document ?? {} }, signal })).data
        ?.errors ?? [],
    enabled: document !== null && read.mistakes.length === 0,
    gcTime: 30_000,
    staleTime: Infinity,
    // Another check of the same person is still running.
    retry: (count, error) => count < 5 && isStatus(error, 429),
    retryDelay: 1000,
  });
  const errors = query.data;
  const mistakes = useMemo(
    () => (read.mistakes.length > 0 ? read.mistakes : placed(rested, [...(errors ?? []), ...refused])),
    [read, rested, errors, refused],
  );
  const isStale = rested !== text || (query.isEnabled && query.isFetching);
  const state = isStale ? "stale" : mistakes.length > 0 ? "wrong" : query.isError ? "unknown" : "ok";
  return { document, mistakes, state, error: query.error };
}
