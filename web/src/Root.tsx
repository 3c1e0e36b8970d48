import { ProblemView } from "@/components/ProblemView";
import { AppFrame } from "@/frame/AppFrame";
import { SignInPage } from "@/session/SignInPage";
import { useSessionQuery } from "@/session/session";

/** The sign-in page for a visitor, the frame with its page for everyone else. */
export function Root() {
  const session = useSessionQuery();
  if (session.data !== undefined) return session.data === null ? <SignInPage /> : <AppFrame />;
  if (session.isError) return <ProblemView error={session.error} onRetry={() => void session.refetch()} />;
  return session.failureReason === null ? null : <ProblemView error={session.failureReason} />;
}
