import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, client } from "@/api/client";
import { Button } from "@/components/Button";
import { whole } from "@/format/numbers";
import { MANAGERS, READERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { type BulkAction, VERBS } from "./bulk";
import styles from "./Jobs.module.css";

const SHOWN = 10;
const POLL_MS = 2000;

/** The actions on many jobs that are going on, and how far they are. */
export function BulkProgress() {
  const tenant = useTenant();
  const reads = useCan(READERS);
  const { data } = api.useQuery(
    "get",
    "/api/v1/jobs/bulk",
    { params: { query: { tenant, limit: SHOWN } } },
    { enabled: reads, refetchInterval: (query) => (query.state.data?.items.some(isRunning) === true ? POLL_MS : 30_000) },
  );
  const running = data?.items.filter(isRunning) ?? [];
  if (running.length === 0) return null;
  return (
    <ul className={styles.actions} aria-label="Actions in progress">
      {running.map((action) => (
        <Going key={action.id} action={action} />
      ))}
    </ul>
  );
}

function isRunning(action: BulkAction): boolean {
  return action.status === "running";
}

function Going({ action }: { action: BulkAction }) {
  const queries = useQueryClient();
  const manages = useCan(MANAGERS);
  const stop = useMutation({
    mutationFn: () => client.POST("/api/v1/jobs/bulk/{bulk_id}/cancel", { params: { path: { bulk_id: action.id } } }),
    onSettled: () => queries.invalidateQueries({ predicate: (query) => JSON.stringify(query.queryKey).includes("/jobs/bulk") }),
  });
  const done = action.changed + action.passed_over;
  return (
    <li className={styles.action} role="status">
      <span>{VERBS[action.action].label}</span>
      <span className={styles.progress}>
        {action.total !== null && (
          <span
            className={styles.bar}
            role="progressbar"
            aria-label="Done"
            aria-valuenow={done}
            aria-valuemin={0}
            aria-valuemax={action.total}
          >
            <span className={styles.done} style={{ width: `${(100 * done) / action.total}%` }} />
          </span>
        )}
        <span className="quiet truncate">
          {whole(action.changed)} {VERBS[action.action].done}
          {action.passed_over > 0 && `, ${whole(action.passed_over)} left unchanged`}
          {action.rate_per_second !== null && `, ${action.rate_per_second} a second`}
          {action.reason !== "" && ` · ${action.reason}`} · {action.created_by}
        </span>
      </span>
      {manages && (
        <Button kind="ghost" busy={stop.isPending} onClick={() => stop.mutate()}>
          Stop
        </Button>
      )}
    </li>
  );
}
