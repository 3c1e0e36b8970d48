import { visible } from "@/format/visible";

/** Attributes that people read or hear. */
const TEXTS = ["title", "aria-label", "aria-valuetext", "alt", "placeholder"] as const;

/**
 * The properties of an element with every text that is shown in it made visible. All pages are compiled to call this, so that no title,
 * cell or message can hide a character or turn the text around it. The values of fields stay as they are.
 */
export function shown<T>(props: T): T {
  if (typeof props !== "object" || props === null) return props;
  const before = props as Record<string, unknown>;
  let changed: Record<string, unknown> | undefined;
  for (const name of ["children", ...TEXTS]) {
    const value = before[name];
    const next = shownValue(value);
    if (next !== value) changed = { ...(changed ?? before), [name]: next };
  }
  return (changed ?? props) as T;
}

function shownValue(value: unknown): unknown {
  if (typeof value === "string") return visible(value);
  if (!Array.isArray(value)) return value;
  const next = value.map(shownValue);
  return next.every((child, n) => child === value[n]) ? value : next;
}
