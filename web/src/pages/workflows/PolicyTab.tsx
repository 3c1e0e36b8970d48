import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { client } from "@/api/client";
import { Field, Input } from "@/components/Form";
import { JsonView } from "@/components/JsonView";
import { ProblemLine } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { useTenant } from "@/session/tenant";
import { useActsForAll } from "./workflows";
import styles from "./Workflows.module.css";

const WORDS: Record<string, readonly [status: string, words: string]> = {
  allow: ["active", "The run would start."],
  review: ["waiting", "The run would wait for approval."],
  block: ["blocked", "The request would be refused."],
};

/** What policy would say to a request for this workflow now, and by which rule. */
export function PolicyTab({ workflow }: { workflow: string }) {
  const tenant = useTenant();
  const actsForAll = useActsForAll();
  const [cents, setCents] = useState("0");
  const isNumber = /^\d{1,10}$/.test(cents) && Number(cents) <= 2_000_000_000;
  const verdict = useQuery({
    queryKey: ["policy-check", tenant, workflow, cents],
    queryFn: async () =>
      (await client.POST("/api/v1/policies/check", { params: { query: { tenant } }, body: { workflow, spend_cents: Number(cents) } }))
        .data ?? null,
    enabled: isNumber && workflow !== "",
  });
  const [status, words] = WORDS[verdict.data?.effect ?? ""] ?? ["pending", ""];
  return (
    <div className={styles.panel}>
      <p className="quiet">
        Every request for a run is judged by the rules of policy{actsForAll && ", here for Atlas's own tenant: choose another at the top"}.
        A rule may count the runs and costs of a day, so the verdict can change.{" "}
        <Link to="/settings" search={({ tenant: chosen }) => ({ tenant: chosen, tab: "policies" })} className={styles.counts}>
          Show the rules
        </Link>
      </p>
      <Field label="Maximum cost of a run, in cents" error={isNumber ? undefined : "Not a whole number of cents."}>
        {(control) => <Input {...control} inputMode="numeric" value={cents} onChange={(event) => setCents(event.target.value.trim())} />}
      </Field>
      <ProblemLine error={verdict.error} />
      {verdict.isPending && isNumber && workflow !== "" && <Skeleton height={40} />}
      {workflow === "" && <p>Give the workflow a key first.</p>}
      {verdict.data != null && (
        <>
          <p className={styles.verdict} role="status">
            <StatusChip status={status} label={verdict.data.effect} />
            <span>
              {words} {verdict.data.reason}
            </span>
          </p>
          {Object.keys(verdict.data.facts).length > 0 && <JsonView label="what decided" value={verdict.data.facts} />}
        </>
      )}
    </div>
  );
}
