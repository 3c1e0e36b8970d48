import { isBusy, isUnreachable, Problem } from "./problem";

const FIRST_DELAY_MS = 1000;
const MAX_DELAY_MS = 15_000;
const MAX_RETRY_AFTER_MS = 60_000;

const retryTimes = new WeakMap<Error, number>();

/** Whether a request that failed so may succeed later: the server is away or busy. */
export function isPassing(error: unknown): boolean {
  return isUnreachable(error) || isBusy(error);
}

/** How long to wait before a failed request is sent again: what the server asks for, else twice as long each time. */
export function delayBeforeRetry(count: number, error: Error): number {
  const asked = error instanceof Problem ? error.retryAfter : null;
  const delay =
    asked === null
      ? Math.min(FIRST_DELAY_MS * 2 ** count, MAX_DELAY_MS)
      : Math.min(Math.max(asked * 1000, FIRST_DELAY_MS), MAX_RETRY_AFTER_MS);
  retryTimes.set(error, Date.now() + delay);
  return delay;
}

/** When the request that failed with this error is sent again; undefined if it is not. */
export function retryTimeOf(error: unknown): number | undefined {
  return error instanceof Error ? retryTimes.get(error) : undefined;
}
