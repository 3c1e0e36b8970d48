import { api } from "@/api/client";
import { Explanation } from "@/components/Explanation";

const ENDED: readonly string[] = ["succeeded", "failed", "canceled", "blocked", "rejected"];

/** Why a run, or the request for one, does not go on. */
export function RunExplanation({ runId, status }: { runId: string; status: string }) {
  const refetchInterval = ENDED.includes(status) ? (false as const) : 5000;
  const { data } = api.useQuery(
    "get",
    "/api/v1/runs/{run_id}/explain",
    { params: { path: { run_id: runId } } },
    { refetchInterval, meta: { live: ["run", "atlas"] } },
  );
  return <Explanation found={data} />;
}
