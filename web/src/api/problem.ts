import type { components } from "./schema";

export type ProblemBody = components["schemas"]["Problem"];

/** What the API answers instead of a result: RFC 9457, with what can be done about it and the id of the request. */
export class Problem extends Error {
  readonly body: ProblemBody;

  constructor(body: ProblemBody) {
    super(body.detail);
    this.name = "Problem";
    this.body = body;
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
  if (isProblem(body)) return new Problem(body);
  const detail = `The server answered ${response.status} ${response.statusText}`.trim() + ".";
  const request_id = response.headers.get("x-request-id");
  return new Problem({
    type: "about:blank",
    title: response.statusText,
    status: response.status,
    detail,
    remedy: null,
    errors: [],
    request_id,
  });
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
  return error instanceof Unreachable || (error instanceof Problem && error.status >= 502);
}

export function isStatus(error: unknown, status: number): boolean {
  return error instanceof Problem && error.status === status;
}
