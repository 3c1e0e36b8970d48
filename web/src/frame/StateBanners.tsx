import { useQueryClient, type Query } from "@tanstack/react-query";
import { CloudOff, RefreshCw } from "lucide-react";
import { useCallback, useSyncExternalStore } from "react";
import { isPassing, retryTimeOf } from "@/api/retries";
import { Button } from "@/components/Button";
import { describe, NextTry } from "@/components/ProblemView";
import { reload, useBuildChanged } from "./build";
import styles from "./OfflineBanner.module.css";

/** Offers to load the pages again after the server was updated. */
export function UpdateBanner() {
  if (!useBuildChanged()) return null;
  return (
    <div className={styles.banner} role="status" data-testid="updated">
      <RefreshCw size={14} aria-hidden />
      <span className={styles.text}>Atlas was updated.</span>
      <Button onClick={() => void reload()}>Reload</Button>
    </div>
  );
}

/** Says immediately that the server is busy or unreachable, and when the next attempt is. */
export function BusyBanner() {
  const queries = useQueryClient();
  const error = useFailure();
  if (error === null) return null;
  const { title, detail } = describe(error);
  const retry = (): void => {
    for (const query of queries.getQueryCache().findAll({ type: "active", predicate: isFailing })) void sendNow(query);
  };
  return (
    <div className={styles.banner} role="status" data-testid="busy">
      <CloudOff size={14} aria-hidden />
      <span className={styles.text}>
        <strong>{title}.</strong> {detail} <NextTry error={error} />
      </span>
      <Button onClick={retry}>Try now</Button>
    </div>
  );
}

/** Why a request of this page waits to be sent again; null if none does. */
function useFailure(): Error | null {
  const cache = useQueryClient().getQueryCache();
  const subscribe = useCallback((changed: () => void) => cache.subscribe(changed), [cache]);
  return useSyncExternalStore(subscribe, () => {
    const failing = cache.findAll({ type: "active", predicate: isFailing });
    return failing[0]?.state.fetchFailureReason ?? null;
  });
}

/** Ends the pause before the next try. */
async function sendNow(query: Query): Promise<void> {
  await query.cancel({ revert: true });
  await query.fetch().catch(() => undefined);
}

function isFailing(query: Query): boolean {
  const { fetchStatus, fetchFailureReason } = query.state;
  return fetchStatus !== "idle" && isPassing(fetchFailureReason) && retryTimeOf(fetchFailureReason) !== undefined;
}
