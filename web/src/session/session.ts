import { useQuery } from "@tanstack/react-query";
import { client, queryClient, type Schemas, SESSION_KEY, setCsrfToken } from "@/api/client";
import { isStatus } from "@/api/problem";
import { setCurrency } from "@/format/numbers";

export type Session = Schemas["CurrentSession"];
export type Role = Session["role"];

/** Groups of roles, as in api/access/roles.py. */
export const OPERATORS: readonly Role[] = ["operator"];
export const MANAGERS: readonly Role[] = ["operator", "tenant_admin"];
export const READERS: readonly Role[] = ["operator", "tenant_admin", "auditor"];
export const JOB_MAKERS: readonly Role[] = ["operator", "tenant_admin", "enqueuer"];
export const PEOPLE: readonly Role[] = ["operator", "tenant_admin", "enqueuer", "auditor"];

/** Who is signed in: undefined until it is known, null for a visitor. */
export function useSessionQuery() {
  return useQuery({ queryKey: SESSION_KEY, queryFn: readSession, staleTime: 60_000, refetchInterval: 300_000 });
}

/** The session of the signed-in person; for everything within the frame. */
export function useSession(): Session {
  const { data } = useSessionQuery();
  if (data === null || data === undefined) throw new Error("There is no session.");
  return data;
}

/** Whether the signed-in person has one of these roles. What a role may not do is not shown. */
export function useCan(roles: readonly Role[]): boolean {
  return roles.includes(useSession().role);
}

/** Whether the signed-in person sees the whole installation: an operator, or an auditor of no tenant. */
export function useSeesAll(): boolean {
  return useSession().tenant_id === null;
}

export async function signIn(token: string): Promise<void> {
  const { data } = await client.POST("/api/v1/session", { body: { token } });
  begin(data ?? null);
}

export async function signOut(): Promise<void> {
  await client.DELETE("/api/v1/session");
  begin(null);
}

/** `atlas up` prints a link that ends so. What follows is sent once, and is in no log: a fragment stays in the browser. */
const LINK = "#sign-in=";
let linkError: unknown = null;

/** Why the link that was followed did not sign in; null if none was, or it did. */
export function failedLink(): unknown {
  return linkError;
}

/** Signs in by the link that was followed, if one was. */
async function followLink(): Promise<void> {
  if (!window.location.hash.startsWith(LINK)) return;
  const code = window.location.hash.slice(LINK.length);
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
  linkError = null;
  await client.POST("/api/v1/session", { body: { code } }).catch((error: unknown) => (linkError = error));
}

async function readSession(): Promise<Session | null> {
  await followLink();
  try {
    const { data } = await client.GET("/api/v1/session");
    setCsrfToken(data?.csrf_token ?? null);
    if (data !== undefined) setCurrency(data.currency);
    return data ?? null;
  } catch (error) {
    if (isStatus(error, 401)) return null;
    throw error;
  }
}

/** What one person saw is not shown to the next. */
function begin(session: Session | null): void {
  setCsrfToken(session?.csrf_token ?? null);
  if (session !== null) setCurrency(session.currency);
  queryClient.removeQueries({ predicate: (query) => query.queryKey[0] !== SESSION_KEY[0] });
  queryClient.setQueryData(SESSION_KEY, session);
}
