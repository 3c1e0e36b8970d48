import { useQuery } from "@tanstack/react-query";
import { Check, CircleDashed, X } from "lucide-react";
import { useEffect, useState } from "react";
import { client, type Schemas } from "@/api/client";
import { isStatus } from "@/api/problem";
import { Button } from "@/components/Button";
import { Command } from "@/components/EmptyState";
import { CopyButton } from "@/components/Id";
import { ProblemLine } from "@/components/ProblemView";
import { useTenant } from "@/session/tenant";
import styles from "./Audit.module.css";
import { canCheck, checkProof, type Proof, type Step, type StepKey } from "./proof";

const TITLES: Record<StepKey, string> = {
  bytes: "Row bytes",
  leaf: "Leaf",
  path: "Path",
  root: "Root",
  checkpoint: "Signed checkpoint",
};
const KEYS = Object.keys(TITLES) as StepKey[];

/** The steps from the row's bytes to the signature; each turns green when this browser has checked it. */
export function ProofSteps({ entry }: { entry: Schemas["EntryDetails"] }) {
  const tenant = useTenant();
  const query = useQuery({
    queryKey: ["audit proof", entry.id, tenant],
    enabled: entry.seal !== null,
    // Sealed rows are signed some seconds later.
    retry: (count, error) => isStatus(error, 409) && count < 20,
    retryDelay: 1500,
    staleTime: 0,
    queryFn: async () => {
      const proof = await client.GET("/api/v1/audit/{row_id}/proof", { params: { path: { row_id: entry.id }, query: { tenant } } });
      const keys = await client.GET("/api/v1/audit/key", { parseAs: "text" });
      return { proof: proof.data as unknown as Proof, keys: keys.data ?? "" };
    },
  });
  if (!canCheck()) {
    return (
      <>
        <p className="quiet">This browser checks proofs on pages with TLS or on this machine only. Without it:</p>
        <Command text={`atlas audit proof ${entry.id}`} />
      </>
    );
  }
  if (entry.seal === null) return <p className="quiet">Rows are sealed within seconds. The proof follows by itself.</p>;
  if (query.isError) return <ProblemLine error={query.error} />;
  if (query.data === undefined) return <Steps steps={[]} />;
  return <Checked key={query.dataUpdatedAt} {...query.data} entry={entry} again={() => void query.refetch()} />;
}

function Checked({ proof, keys, entry, again }: { proof: Proof; keys: string; entry: Schemas["EntryDetails"]; again: () => void }) {
  const [steps, setSteps] = useState<Step[]>([]);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const shown = new AbortController();
    const check = async (): Promise<void> => {
      const done: Step[] = [];
      for await (const step of checkProof(proof, entry, keys)) {
        if (shown.signal.aborted) return;
        done.push(step);
        setSteps([...done]);
      }
    };
    check().catch((problem: unknown) => !shown.signal.aborted && setError(problem));
    return () => shown.abort();
  }, [proof, entry, keys]);
  return (
    <>
      <Steps steps={steps} />
      <ProblemLine error={error} />
      <div className={styles.buttons}>
        <Button onClick={again}>Check again</Button>
        <Button onClick={() => download(proof, entry.id)}>Download the proof</Button>
      </div>
    </>
  );
}

function Steps({ steps }: { steps: Step[] }) {
  const failed = steps.some((one) => !one.passed);
  const done = steps.length === KEYS.length && !failed;
  return (
    <>
      <p className={styles.verdict} data-state={failed ? "failed" : done ? "passed" : "running"} role="status">
        {failed ? "This row is not proved." : done ? "Proved: this row is in the signed log as it is shown." : "Checking in this browser"}
      </p>
      <ol className={styles.steps}>
        {KEYS.map((key) => {
          const step = steps.find((one) => one.key === key);
          const state = step === undefined ? "open" : step.passed ? "passed" : "failed";
          return (
            <li key={key} className={styles.step} data-state={state} data-step={key}>
              {state === "open" ? (
                <CircleDashed size={14} aria-label="not checked" />
              ) : state === "passed" ? (
                <Check size={14} aria-label="passed" />
              ) : (
                <X size={14} aria-label="failed" />
              )}
              <div>
                <strong>{TITLES[key]}</strong>
                {step !== undefined && <p>{step.reason}</p>}
                {step !== undefined && step.value !== "" && (
                  <p className={styles.hash}>
                    <code>{step.value}</code>
                    <CopyButton text={step.value} label={`Copy ${TITLES[key]}`} />
                  </p>
                )}
              </div>
            </li>
          );
        })}
      </ol>
    </>
  );
}

/** Saves the proof for `atlas audit proof --check`, which needs neither this page nor a database. */
function download(proof: Proof, id: number): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(proof)], { type: "application/json" }));
  link.download = `atlas-audit-row-${id}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}
