import { Link } from "@tanstack/react-router";
import { Compass, X } from "lucide-react";
import { api } from "@/api/client";
import { IconButton } from "@/components/Button";
import { keep, useKept } from "@/pages/first-run/guide";
import { useTenant } from "@/session/tenant";
import styles from "./Overview.module.css";

/** An installation with fewer jobs of people is new. */
const FEW_JOBS = 20;

/** Offers the guide in a new installation; and to go on with it, once it was begun in this browser. */
export function FirstRunOffer() {
  const tenant = useTenant();
  const { begun, away } = useKept();
  const query = { source: "manual" as const, limit: FEW_JOBS, tenant };
  const { data } = api.useQuery("get", "/api/v1/jobs/brief", { params: { query } }, { enabled: !away && !begun, staleTime: 60_000 });
  const isNew = data !== undefined && data.items.length < FEW_JOBS && data.next_cursor === null;
  if (away || !(begun || isNew)) return null;
  return (
    <aside className={styles.offer} aria-label="Guided first run">
      <Compass size={18} aria-hidden />
      <p>
        {begun
          ? "You have not finished the guided first run."
          : "New here? Send a mail, approve a workflow, kill a worker: six steps that check themselves."}{" "}
        <Link to="/first-run">{begun ? "Continue" : "Take the guided first run"}</Link>
      </p>
      <IconButton label="Dismiss the guide" onClick={() => keep({ away: true })}>
        <X size={14} aria-hidden />
      </IconButton>
    </aside>
  );
}
