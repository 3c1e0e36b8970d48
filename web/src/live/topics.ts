import type { QueryClient } from "@tanstack/react-query";
import type { Batch } from "./socket";

/** What an event is about: the word before its dot; attempts are about their job. */
export function topicOf(kind: string): string {
  const topic = kind.split(".")[0] ?? kind;
  return topic === "job_run" ? "job" : topic;
}

export function topicsOf(batch: Batch): Set<string> {
  const kinds = [...batch.events.map((one) => one.event as string), ...Object.keys(batch.more)];
  return new Set(kinds.map(topicOf));
}

const EVERYTHING = "*";

/** Fetches what the page shows of a topic again, at most once in this many milliseconds. */
export class Refresher {
  private readonly client: QueryClient;
  private readonly pause: number;
  private readonly waiting = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | null = null;
  private last = 0;

  constructor(client: QueryClient, pause = 1000) {
    this.client = client;
    this.pause = pause;
  }

  add(batch: Batch): void {
    if (batch.refetch) this.waiting.add(EVERYTHING);
    for (const topic of topicsOf(batch)) this.waiting.add(topic);
    if (this.waiting.size === 0 || this.timer !== null) return;
    const wait = Math.max(0, this.last + this.pause - Date.now());
    this.timer = setTimeout(() => this.refresh(), wait);
  }

  stop(): void {
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private refresh(): void {
    this.timer = null;
    this.last = Date.now();
    const topics = new Set(this.waiting);
    this.waiting.clear();
    void this.client.invalidateQueries({
      predicate: (query) => topics.has(EVERYTHING) || (query.meta?.live ?? []).some((topic) => topics.has(topic)),
    });
  }
}
