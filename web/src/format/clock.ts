/** How far this browser's clock may be from the server's before it counts: the server names its time in whole seconds. */
const TOLERANCE_MS = 2000;

let offset = 0;

/** Learns the server's time from the Date header of a response that has just arrived. */
export function noteServerDate(date: string | null): void {
  const at = Date.parse(date ?? "");
  if (Number.isNaN(at)) return;
  // In the middle of the second that it names.
  const measured = at + 500 - Date.now();
  if (Math.abs(measured) < TOLERANCE_MS) offset = 0;
  else if (Math.abs(measured - offset) >= TOLERANCE_MS) offset = measured;
}

/** The present time by the server's clock, which all times in its responses are of. */
export function serverNow(): number {
  return Date.now() + offset;
}

/** A time of this browser's clock, by the server's. */
export function toServerTime(at: number): number {
  return at + offset;
}
