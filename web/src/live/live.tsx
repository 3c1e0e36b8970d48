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
  /** When the connection was lost; null while there is one. */
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
      onState(next) {
        setState(next);
        if (next === "live") setLostAt(null);
        if (next === "waiting") setLostAt((at) => at ?? Date.now());
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
