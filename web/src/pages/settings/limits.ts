import { isObject } from "@/format/json";

/** The limits of a tenant as a form has them: texts by their paths, such as `quotas.tokens`; "" for a default. */
export type LimitTexts = Readonly<Record<string, string>>;

export interface LimitField {
  path: string;
  label: string;
  hint?: string;
  /** A list, between commas. */
  isList?: true;
}

export const LIMITS: readonly LimitField[] = [
  { path: "weight", label: "Weight", hint: "Its share of the workers, relative to other tenants; 1 by default." },
  { path: "in_flight", label: "Jobs in flight", hint: "How many run at the same time; no limit by default." },
  { path: "rate", label: "Rate of starts", hint: "Such as 100/minute; no limit by default." },
  { path: "burst", label: "Burst", hint: "How many may start immediately, within the rate." },
  { path: "requests_per_second", label: "Requests per second", hint: "To the API; 2,000 by default. Each job in a body counts as one." },
];

export const MAIL: readonly LimitField[] = [
  { path: "email.providers", label: "Mail providers", hint: "In the order in which they are tried, such as resend, smtp.", isList: true },
  { path: "email.from", label: "Sender of mails", hint: "Such as Demo <mail@demo.example>." },
  { path: "email.agents", label: "Agents that mails may name", hint: "All by default.", isList: true },
  { path: "email.per_minute", label: "Mails per minute" },
];

/** How many it may have, with the default of each. */
export const QUOTAS: Readonly<Record<string, number>> = {
  tokens: 1000,
  sessions_of_a_token: 100,
  hosts: 1000,
  servers_of_a_host: 100,
  triggers: 1000,
  webhooks: 100,
  inbound_hooks: 100,
  workflows: 500,
  versions_of_a_workflow: 1000,
  policies: 200,
  definitions: 5000,
};

const LISTS = new Set(MAIL.filter(({ isList }) => isList).map(({ path }) => path));

export function textsOf(limits: Readonly<Record<string, unknown>>): LimitTexts {
  const texts: Record<string, string> = {};
  for (const [name, limit] of Object.entries(limits)) {
    if (isObject(limit)) for (const [inner, value] of Object.entries(limit)) texts[`${name}.${inner}`] = shown(value);
    else texts[name] = shown(limit);
  }
  return texts;
}

/** The limits that the form describes. What is empty has its default. */
export function limitsOf(texts: LimitTexts): Record<string, unknown> {
  const limits: Record<string, unknown> = {};
  for (const [path, text] of Object.entries(texts)) {
    if (text.trim() === "") continue;
    const [name = "", inner] = path.split(".", 2);
    const value = LISTS.has(path)
      ? text
          .split(",")
          .map((one) => one.trim())
          .filter(Boolean)
      : read(text);
    limits[name] = inner === undefined ? value : { ...(limits[name] as object | undefined), [inner]: value };
  }
  return limits;
}

/** A number where it is one; the server says what is wrong with anything else. */
function read(text: string): number | string {
  const number = Number(text);
  return Number.isFinite(number) ? number : text.trim();
}

function shown(limit: unknown): string {
  return Array.isArray(limit) ? limit.join(", ") : typeof limit === "number" || typeof limit === "string" ? String(limit) : "";
}
