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
let amounts = amountsIn("EUR");

function amountsIn(currency: string): { exact: Intl.NumberFormat; short: Intl.NumberFormat } {
  const options = { style: "currency", currency, currencyDisplay: "code" } as const;
  return {
    exact: new Intl.NumberFormat("en", { ...options, minimumFractionDigits: 2, maximumFractionDigits: 2 }),
    short: new Intl.NumberFormat("en", { ...options, notation: "compact", maximumFractionDigits: 1 }),
  };
}

/** The currency that the installation counts costs in. */
export function setCurrency(currency: string): void {
  amounts = amountsIn(currency);
}

/** 12.3 %: a share of one. */
export function percent(share: number): string {
  return PERCENT.format(share);
}

/** EUR 12,345.67, of cents: for what is decided or checked. */
export function exactMoney(cents: number): string {
  return amounts.exact.format(cents / 100);
}

/** EUR 12.34, of cents; EUR 12.3K where it is long. */
export function money(cents: number): string {
  return (Math.abs(cents) < 1_000_000 ? amounts.exact : amounts.short).format(cents / 100);
}
