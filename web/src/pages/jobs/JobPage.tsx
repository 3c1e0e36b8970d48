import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Id } from "@/components/Id";
import { Page } from "@/components/Page";
import { useJob } from "./detail";
import { JobActions } from "./JobActions";
import { JobStatus } from "./JobColumns";
import { JobDetail } from "./JobDetail";

/** One job as a page of its own. */
export function JobPage() {
  const { jobId } = useParams({ from: "/jobs/$jobId" });
  const { tab = "summary" } = useSearch({ from: "/jobs/$jobId" });
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const found = useJob(jobId);
  const one = found.job.data;
  return (
    <Page
      title={one?.job_type ?? "Job"}
      about={
        <>
          {one !== undefined && <JobStatus job={one} />}
          <Id value={jobId} whole />
        </>
      }
      actions={
        one !== undefined && (
          <JobActions
            job={one}
            onCreated={(id) => void navigate({ to: "/jobs/$jobId", params: { jobId: id }, search: ({ tenant }) => ({ tenant }) })}
            onDeleted={() => void navigate({ to: "/jobs", search: ({ tenant }) => ({ tenant }) })}
          />
        )
      }
    >
      <JobDetail
        found={found}
        tab={tab}
        onTab={(next) => void navigate({ search: (before) => ({ ...before, tab: next }), replace: true })}
      />
    </Page>
  );
}
