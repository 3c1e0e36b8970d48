import { QueryClient } from "@tanstack/react-query";
import createFetchClient, { type Middleware } from "openapi-fetch";
import createQueryClient from "openapi-react-query";
import { noteServerDate } from "@/format/clock";
import { readProblem, Unreachable } from "./problem";
import { delayBeforeRetry, isPassing } from "./retries";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** The key under which the session is cached; see session/session.ts. */
export const SESSION_KEY = ["session"];

let csrfToken: string | null = null;

/** Every change carries this value, which only our own pages can read. */
export function setCsrfToken(token: string | null): void {
  csrfToken = token;
}

const middleware: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrfToken !== null) request.headers.set("X-CSRF-Token", csrfToken);
    return request;
  },
  async onResponse({ response, schemaPath }) {
    noteServerDate(response.headers.get("date"));
    if (response.ok) return;
    const problem = await readProblem(response);
    // The session has ended: the frame shows the sign-in page.
    if (problem.status === 401 && schemaPath !== "/api/v1/session") queryClient.setQueryData(SESSION_KEY, null);
    throw problem;
  },
  // The browser says of a failed request no more than a program says of a fault in itself: a TypeError.
  onError: ({ error }) => (error instanceof TypeError ? new Unreachable(error) : undefined),
};

/** Typed calls: `client.GET("/api/v1/jobs", { params })`. A refused one throws a Problem. */
export const client = createFetchClient<paths>({ baseUrl: "", credentials: "same-origin" });
client.use(middleware);

/** The same calls as hooks: `api.useQuery("get", "/api/v1/jobs", { params }, { meta: { live: ["job"] } })`. */
export const api = createQueryClient(client);

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: true,
      // What was refused once is refused again; a server that is away or busy comes back.
      retry: (_, error) => isPassing(error),
      retryDelay: delayBeforeRetry,
    },
    mutations: { retry: false },
  },
});
