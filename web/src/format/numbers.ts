const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 12,345: every digit counts. */
export function whole(value: number): string {
  return WHOLE.format(value);
}

/** 12.3K: for places that are too small for more. */
export function short(value: number): string {
  return value < 10_000 ? WHOLE.format(value) : SHORT.format(value);
}

/** "1 job", "12 jobs". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}
