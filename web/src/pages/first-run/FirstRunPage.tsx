import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { PartyPopper } from "lucide-react";
import { useEffect } from "react";
import { Page } from "@/components/Page";
import { Skeleton } from "@/components/Skeleton";
import { TenantField } from "@/session/TenantField";
import { useApprovalStep } from "./ApprovalStep";
import { useAuditStep } from "./AuditStep";
import styles from "./FirstRun.module.css";
import { useGateStep } from "./GateStep";
import { keep, useGuideTenant, useKept } from "./guide";
import { useLeaseStep } from "./LeaseStep";
import { useMailStep, useOutboxStep } from "./MailSteps";
import { STEPS, type StepKey } from "./search";
import { Step, type StepView } from "./Step";

/** A guide through a new installation. Each step is done when the server says so; a reload begins where it was left. */
export function FirstRunPage() {
  const { tenant, known } = useGuideTenant();
  useEffect(() => keep({ begun: true, away: false }), []);
  return <Page title="First run">{known ? <Guide key={tenant} tenant={tenant} /> : <Skeleton height={320} />}</Page>;
}

function Guide({ tenant }: { tenant: string | undefined }) {
  const { step: chosen } = useSearch({ from: "/first-run" });
  const navigate = useNavigate({ from: "/first-run" });
  const { skipped } = useKept();
  const mail = useMailStep(tenant);
  const views: Record<StepKey, StepView> = {
    mail,
    outbox: useOutboxStep(mail.job),
    approval: useApprovalStep(tenant, mail.job),
    lease: useLeaseStep(tenant),
    gate: useGateStep(tenant),
    audit: useAuditStep(tenant, mail.job),
  };
  const isLeft = (key: StepKey): boolean => views[key].stage !== "done" && !skipped.includes(key);
  const next = STEPS.find(isLeft);
  const open = chosen ?? next;
  const done = STEPS.filter((key) => views[key].stage === "done").length;
  const show = (step: StepKey | undefined): void => void navigate({ search: (before) => ({ ...before, step }), replace: true });
  const skip = (key: StepKey, skips: boolean): void => {
    keep({ skipped: skips ? [...skipped, key] : skipped.filter((one) => one !== key) });
    if (skips) show(undefined);
  };
  return (
    <div className={styles.guide}>
      <p className={styles.lead}>
        Six small things that show what Atlas does. Each is checked against what the server has recorded, so you may reload, leave and come
        back.
      </p>
      <div className={styles.head}>
        <Progress done={done} />
        <TenantField
          value={tenant}
          onChange={(slug) => void navigate({ search: (before) => ({ ...before, tenant: slug }) })}
          none="Atlas itself"
        />
      </div>
      <ol className={styles.steps} aria-label="Steps">
        {STEPS.map((key, index) => (
          <Step
            key={key}
            view={views[key]}
            number={index + 1}
            open={key === open}
            skipped={skipped.includes(key)}
            next={next === undefined || next === key ? undefined : views[next].title}
            onNext={() => show(undefined)}
            onToggle={() => show(key === open && key === chosen ? undefined : key)}
            onSkip={(skips) => skip(key, skips)}
          />
        ))}
      </ol>
      {next === undefined && <End skipped={STEPS.length - done} />}
    </div>
  );
}

function Progress({ done }: { done: number }) {
  return (
    <div className={styles.progress}>
      <span>
        {done} of {STEPS.length} done
      </span>
      <span
        className={styles.bar}
        role="progressbar"
        aria-label="Steps done"
        aria-valuenow={done}
        aria-valuemin={0}
        aria-valuemax={STEPS.length}
      >
        <span className={styles.filled} style={{ width: `${(done / STEPS.length) * 100}%` }} />
      </span>
    </div>
  );
}

function End({ skipped }: { skipped: number }) {
  useEffect(() => keep({ begun: false, away: true }), []);
  return (
    <div className={styles.end} role="status">
      <PartyPopper size={18} aria-hidden />
      <div>
        <h2>{skipped === 0 ? "All six are done." : "That was all."}</h2>
        <p>
          {skipped > 0 && `${skipped} of them skipped; they stay here. `}
          Next:{" "}
          <Link to="/jobs" search={{ new: "job" }}>
            enqueue a job
          </Link>{" "}
          of your own, see <Link to="/schedules">what starts by itself</Link>, or read <a href="/docs">the API</a>. Press <kbd>Ctrl</kbd>{" "}
          <kbd>K</kbd> for everything else.
        </p>
      </div>
    </div>
  );
}
