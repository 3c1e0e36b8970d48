/** Search parameters in the address: plain text, lists as repeated names. A page reads them with these functions. */
export type RawSearch = Record<string, unknown>;

export function parseSearch(text: string): RawSearch {
  const found: Record<string, string | string[]> = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const before = found[name];
    found[name] = before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value];
  }
  return found;
}

export function stringifySearch(search: RawSearch): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (typeof one === "string" || typeof one === "number" || typeof one === "boolean") params.append(name, String(one));
    }
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

/** A text, or undefined if it is missing or empty. */
export function text(search: RawSearch, name: string): string | undefined {
  const value = search[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** All values of a name that may be given several times. */
export function texts(search: RawSearch, name: string): string[] | undefined {
  const value = search[name];
  const list = (Array.isArray(value) ? (value as unknown[]) : [value]).filter((one) => typeof one === "string" && one !== "");
  return list.length === 0 ? undefined : (list as string[]);
}

/** One of the values that are known, or undefined. */
export function oneOf<T extends string>(search: RawSearch, name: string, known: readonly T[]): T | undefined {
  return known.find((one) => one === search[name]);
}

/** Those of the values that are known. */
export function someOf<T extends string>(search: RawSearch, name: string, known: readonly T[]): T[] | undefined {
  const given = texts(search, name) ?? [];
  const found = known.filter((one) => given.includes(one));
  return found.length === 0 ? undefined : found;
}
