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

const BYTES = ["B", "KB", "MB", "GB"];

/** 812 B, 1.2 KB, 3.4 MB. */
export function bytes(size: number): string {
  const step = Math.min(BYTES.length - 1, Math.floor(Math.log10(Math.max(1, size)) / 3));
  return `${step === 0 ? size : (size / 1000 ** step).toFixed(1)} ${BYTES[step] ?? "B"}`;
}

const PERCENT = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const MONEY = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** 12.3 %: a share of one. */
export function percent(share: number): string {
  return PERCENT.format(share);
}

/** 12.34, of cents. Atlas knows no currency. */
export function money(cents: number): string {
  return Math.abs(cents) < 1_000_000 ? MONEY.format(cents / 100) : SHORT.format(cents / 100);
}
