/** The statuses in the order of a job's life. */
export const STATUSES = ["queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled"] as const;

/** The smallest part of the bar that a status with any job has: three of a million are still seen. */
const MIN_SHARE = 0.012;

export interface Share {
  status: string;
  count: number;
  share: number;
}

/** The parts of the bar, of statuses that have jobs. */
export function shares(counts: Record<string, number>): Share[] {
  const found = STATUSES.map((status) => ({ status, count: counts[status] ?? 0 })).filter((one) => one.count > 0);
  const total = found.reduce((sum, one) => sum + one.count, 0);
  return found.map((one) => ({ ...one, share: Math.max(MIN_SHARE, one.count / total) }));
}
