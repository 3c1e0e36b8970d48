import type { components } from "./schema";

export type ProblemBody = components["schemas"]["Problem"];

/** The type of a problem that Atlas itself did not describe. */
const PROXY = "about:blank";

/** What the API answers instead of a result: RFC 9457, with what can be done about it and the id of the request. */
export class Problem extends Error {
  readonly body: ProblemBody;
  /** After how many seconds the server wants to be asked again; null if it does not say. */
  readonly retryAfter: number | null;

  constructor(body: ProblemBody, retryAfter: number | null = null) {
    super(body.detail);
    this.name = "Problem";
    this.body = body;
    this.retryAfter = retryAfter;
  }

  get status(): number {
    return this.body.status;
  }

  /** The reason why a field was refused. */
  reasonOf(field: string): string | undefined {
    return this.body.errors.find((one) => one.field === field)?.reason;
  }
}

/** The problem that a response carries; one of a proxy, which knows no problems, gets a plain one. */
export async function readProblem(response: Response): Promise<Problem> {
  const body: unknown = await response.json().catch(() => null);
  const seconds = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  const retryAfter = Number.isNaN(seconds) ? null : seconds;
  if (isProblem(body)) return new Problem(body, retryAfter);
  const detail = `The server answered ${response.status} ${response.statusText}`.trim() + ".";
  const request_id = response.headers.get("x-request-id");
  return new Problem(
    { type: PROXY, title: response.statusText, status: response.status, detail, remedy: null, errors: [], request_id },
    retryAfter,
  );
}

function isProblem(value: unknown): value is ProblemBody {
  return typeof value === "object" && value !== null && "detail" in value && "status" in value && "errors" in value;
}

/** A request that found no server. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("The API cannot be reached.", { cause });
    this.name = "Unreachable";
  }
}

/** Whether the server was not reached: there is none, or a proxy answers in its place. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof Unreachable || (error instanceof Problem && error.status >= 502 && error.body.type === PROXY);
}

/** Whether the server wants to be asked again later: its database is away (503), or it is asked too often (429). */
export function isBusy(error: unknown): boolean {
  return (isStatus(error, 503) && !isUnreachable(error)) || isStatus(error, 429);
}

export function isStatus(error: unknown, status: number): boolean {
  return error instanceof Problem && error.status === status;
}

/** The script of a page did not arrive: the server is away, or was updated and no longer has this version of it. */
export class PageNotLoaded extends Error {
  constructor(cause: unknown) {
    super("Atlas was updated, or cannot be reached.", { cause });
    this.name = "PageNotLoaded";
  }
}
