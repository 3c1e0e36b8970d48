import { Link } from "@tanstack/react-router";
import { Maximize2 } from "lucide-react";
import { SidePanel } from "@/components/Dialog";
import { Id } from "@/components/Id";
import { useJob } from "./detail";
import { JobActions } from "./JobActions";
import { JobStatus } from "./JobColumns";
import { JobDetail } from "./JobDetail";
import styles from "./JobPanel.module.css";
import type { JobTab } from "./search";

interface JobPanelProps {
  jobId: string;
  tab: JobTab;
  onTab: (tab: JobTab) => void;
  onClose: () => void;
  /** Shows another job instead. */
  onGoTo: (id: string) => void;
}

/** A job beside the list that it is in. */
export function JobPanel({ jobId, tab, onTab, onClose, onGoTo }: JobPanelProps) {
  const found = useJob(jobId);
  const { job } = found;
  return (
    <SidePanel
      title={job.data?.job_type ?? "Job"}
      about={
        <span className={styles.about}>
          {job.data !== undefined && <JobStatus job={job.data} />}
          <Id value={jobId} />
        </span>
      }
      actions={
        <>
          {job.data !== undefined && <JobActions job={job.data} onCreated={onGoTo} onDeleted={onClose} />}
          <Link
            to="/jobs/$jobId"
            params={{ jobId }}
            search={({ tenant }) => ({ tenant })}
            className={styles.whole}
            aria-label="Open as a page"
            title="Open as a page"
          >
            <Maximize2 size={16} aria-hidden />
          </Link>
        </>
      }
      onClose={onClose}
    >
      <JobDetail found={found} tab={tab} onTab={onTab} />
    </SidePanel>
  );
}
