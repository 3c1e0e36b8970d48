import { useQueryClient } from "@tanstack/react-query";
import { createContext, use, useEffect, useEffectEvent, useMemo, useState, type ReactNode } from "react";
import { SESSION_KEY } from "@/api/client";
import { useTenant } from "@/session/tenant";
import { type Batch, LiveSocket, type LiveState } from "./socket";
import { Refresher } from "./topics";

declare module "@tanstack/react-query" {
  interface Register {
    /** `live`: the topics of events after which the query is fetched again: "job", "run", "trigger", "atlas". */
    queryMeta: { live?: string[] };
  }
}

interface Live {
  state: LiveState;
  /** Since when nothing was heard; null while the connection is live. */
  lostAt: number | null;
  listeners: Set<(batch: Batch) => void>;
}

const LiveContext = createContext<Live | null>(null);

/** Keeps the one live connection of the page, and fetches again what events are about. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const tenant = useTenant();
  const [state, setState] = useState<LiveState>("connecting");
  const [lostAt, setLostAt] = useState<number | null>(null);
  const [listeners] = useState(() => new Set<(batch: Batch) => void>());

  useEffect(() => {
    const refresher = new Refresher(queries);
    const socket = new LiveSocket(tenant, {
      onState(next, heardAt) {
        setState(next);
        if (next === "live") setLostAt(null);
        if (next === "waiting" || next === "silent") setLostAt((at) => at ?? heardAt ?? Date.now());
      },
      onBatch(batch) {
        for (const listener of listeners) listener(batch);
        refresher.add(batch);
      },
      onRefused: () => void queries.invalidateQueries({ queryKey: SESSION_KEY }),
    });
    socket.start();
    return () => {
      socket.stop();
      refresher.stop();
    };
  }, [queries, tenant, listeners]);

  const live = useMemo(() => ({ state, lostAt, listeners }), [state, lostAt, listeners]);
  return <LiveContext value={live}>{children}</LiveContext>;
}

/** Whether what is shown may be out of date: the connection was lost, or the server does not answer. */
export function isStale({ state, lostAt }: Pick<Live, "state" | "lostAt">): boolean {
  return lostAt !== null && state !== "live";
}

export function useLive(): Live {
  const live = use(LiveContext);
  if (live === null) throw new Error("Live updates are there within the frame only.");
  return live;
}

/** Calls a function with what happened since the last picture, for pages that change rows in place. */
export function useLiveBatches(handle: (batch: Batch) => void): void {
  const { listeners } = useLive();
  const current = useEffectEvent(handle);
  useEffect(() => {
    const listener = (batch: Batch): void => current(batch);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }, [listeners]);
}
