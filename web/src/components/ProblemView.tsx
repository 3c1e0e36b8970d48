import { CircleAlert, Lock, WifiOff } from "lucide-react";
import { isStatus, isUnreachable, PageNotLoaded, Problem } from "@/api/problem";
import { retryTimeOf } from "@/api/retries";
import { nameCommand } from "@/format/command";
import { Button } from "./Button";
import { Id } from "./Id";
import { Sentence } from "./Sentence";
import styles from "./States.module.css";
import { useBrowserNow } from "./Time";

/** What went wrong: cause, remedy, and the id under which the server's log has it. */
export function ProblemView({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  const { title, detail, remedy, requestId } = describe(error);
  const Icon = isUnreachable(error) ? WifiOff : isStatus(error, 403) ? Lock : CircleAlert;
  return (
    <div className={styles.state} role="alert">
      <Icon size={20} className={styles.icon} aria-hidden />
      <h2>{title}</h2>
      <p>
        <Sentence text={detail} />
      </p>
      {remedy !== null && <p>{remedy}</p>}
      <NextTry error={error} />
      {error instanceof Problem && error.body.errors.length > 1 && (
        <ul className={styles.reasons}>
          {error.body.errors.map((one) => (
            <li key={one.field}>
              <code>{one.field}</code> {one.reason}
            </li>
          ))}
        </ul>
      )}
      {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
      {requestId !== null && (
        <p className={styles.small}>
          Request <Id value={requestId} />
        </p>
      )}
    </div>
  );
}

/** When the request is sent again by itself, if it is. */
export function NextTry({ error }: { error: unknown }) {
  const at = retryTimeOf(error);
  const now = useBrowserNow();
  if (at === undefined) return null;
  const seconds = Math.ceil((at - now) / 1000);
  // It changes every second, so it is not read aloud.
  return <span aria-hidden>{seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again."}</span>;
}

/** The same in one line, for forms and dialogs. */
export function ProblemLine({ error }: { error: unknown }) {
  if (error === null || error === undefined) return null;
  const { detail, remedy, requestId } = describe(error);
  return (
    <p className={styles.line} role="alert">
      <CircleAlert size={14} aria-hidden />
      <span>
        {detail} {remedy}
        {requestId !== null && <span className="quiet"> Request {requestId.slice(0, 8)}</span>}
      </span>
    </p>
  );
}

interface Described {
  title: string;
  detail: string;
  remedy: string | null;
  requestId: string | null;
}

export function describe(error: unknown): Described {
  if (isUnreachable(error)) {
    return {
      title: "Atlas is not responding",
      detail: "The API cannot be reached.",
      remedy: null,
      requestId: null,
    };
  }
  if (error instanceof PageNotLoaded) {
    return { title: "This page could not be loaded", detail: error.message, remedy: null, requestId: null };
  }
  if (!(error instanceof Problem)) {
    return { title: "This page failed", detail: error instanceof Error ? error.message : String(error), remedy: null, requestId: null };
  }
  const titles: Record<number, string> = {
    403: "Your role may not do this",
    404: "Not found",
    429: "Too many requests",
    503: "Atlas is busy",
  };
  return {
    title: titles[error.status] ?? "The request failed",
    detail: nameCommand(error.message),
    remedy: error.body.remedy && nameCommand(error.body.remedy),
    requestId: error.body.request_id,
  };
}
