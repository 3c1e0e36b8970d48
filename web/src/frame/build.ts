import { useEffect, useState } from "react";
import { useLive } from "@/live/live";

/** The tag of the pages that the server has now; null if it does not answer. */
async function readBuild(): Promise<string | null> {
  const response = await fetch("/", { cache: "no-cache", headers: { Accept: "text/html" } }).catch(() => null);
  return response?.ok === true ? response.headers.get("etag") : null;
}

/** Whether the server has other pages than this tab runs. It is asked whenever the live connection opens: an update closes it. */
export function useBuildChanged(): boolean {
  const { state } = useLive();
  const [first, setFirst] = useState<string | null>(null);
  const [latest, setLatest] = useState<string | null>(null);
  const isLive = state === "live";
  useEffect(() => {
    if (!isLive) return;
    let isMounted = true;
    void readBuild().then((build) => {
      if (!isMounted || build === null) return;
      setFirst((before) => before ?? build);
      setLatest(build);
    });
    return () => {
      isMounted = false;
    };
  }, [isLive]);
  return first !== latest;
}

/** Loads the whole page again, unless the server is away: the browser would show an error of its own then. */
export async function reload(): Promise<void> {
  const response = await fetch("/healthz", { cache: "no-store" }).catch(() => null);
  if (response?.ok === true) window.location.reload();
}
