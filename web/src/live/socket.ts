import type { Schemas } from "@/api/client";

export type LiveEvent = Schemas["JobEvent"] | Schemas["GateEvent"] | Schemas["PauseEvent"] | Schemas["RunEvent"] | Schemas["TriggerEvent"];
type Frame = Schemas["Hello"] | Schemas["Events"] | Schemas["Refetch"];

/** What arrived since the last animation frame. */
export interface Batch {
  events: LiveEvent[];
  /** Events that were counted and not sent, by kind. */
  more: Record<string, number>;
  /** More happened than frames carry: everything shown is fetched again. */
  refetch: boolean;
}

/** "silent": nothing was heard for a while, although the connection is open. */
export type LiveState = "connecting" | "live" | "waiting" | "silent";

export interface Listener {
  /** With the time of the last frame, if one came. */
  onState: (state: LiveState, heardAt: number | null) => void;
  onBatch: (batch: Batch) => void;
  /** The credential is no longer valid, or cannot be checked. */
  onRefused: () => void;
}

const FIRST_DELAY = 500;
const MAX_DELAY = 15_000;
const REVOKED = 4401;
/** The server sends a frame every 5 s, also when nothing happens. */
export const MAX_SILENCE_MS = 15_000;
const CHECK_MS = 1000;

/** How long to wait before the next try: doubled each time, and scattered so that pages do not return all at once. */
export function delayBefore(tries: number, random: number): number {
  return Math.min(MAX_DELAY, FIRST_DELAY * 2 ** tries) * (0.5 + random / 2);
}

/** One WebSocket, opened again whenever it closes, from the place in the log that the last frame reached. */
export class LiveSocket {
  private readonly listener: Listener;
  private readonly tenant: string | undefined;
  private socket: WebSocket | null = null;
  private place: string | null = null;
  private tries = 0;
  private timer = 0;
  private batch: Batch = emptyBatch();
  private scheduled = 0;
  private stopped = false;
  private state: LiveState = "connecting";
  private heardAt: number | null = null;
  private openedAt = 0;
  private watch = 0;

  constructor(tenant: string | undefined, listener: Listener) {
    this.tenant = tenant;
    this.listener = listener;
  }

  start(): void {
    window.addEventListener("online", this.retryNow);
    this.watch = window.setInterval(this.checkSilence, CHECK_MS);
    this.connect();
  }

  stop(): void {
    this.stopped = true;
    window.removeEventListener("online", this.retryNow);
    window.clearTimeout(this.timer);
    window.clearInterval(this.watch);
    cancelAnimationFrame(this.scheduled);
    this.socket?.close();
  }

  private readonly retryNow = (): void => {
    if (this.socket !== null || this.stopped) return;
    window.clearTimeout(this.timer);
    this.connect();
  };

  private connect(): void {
    // A server that does not answer stays silent until it does.
    if (this.state !== "silent") this.tell("connecting");
    const socket = new WebSocket(this.address());
    this.socket = socket;
    this.openedAt = Date.now();
    socket.addEventListener("message", (message: MessageEvent<string>) => {
      if (socket === this.socket) this.receive(message.data);
    });
    socket.addEventListener("close", (event) => {
      if (socket === this.socket) this.closed(event.code);
    });
  }

  private tell(state: LiveState): void {
    this.state = state;
    this.listener.onState(state, this.heardAt);
  }

  /** A server that hangs, or a network that swallows everything, does not close the connection: it is given up and opened again. */
  private readonly checkSilence = (): void => {
    if (this.socket === null || Date.now() - Math.max(this.heardAt ?? 0, this.openedAt) < MAX_SILENCE_MS) return;
    const socket = this.socket;
    this.tell("silent");
    this.tries += 1;
    this.connect();
    socket.close();
  };

  private address(): string {
    const url = new URL("/api/v1/live", location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    if (this.tenant !== undefined) url.searchParams.set("tenant", this.tenant);
    if (this.place !== null) url.searchParams.set("since", this.place);
    return url.href;
  }

  private closed(code: number): void {
    this.socket = null;
    if (this.stopped) return;
    this.tell("waiting");
    // A refused handshake has no code of its own: whether the session is still valid is asked for over HTTP.
    if (code === REVOKED || this.tries > 0) this.listener.onRefused();
    this.timer = window.setTimeout(this.retryNow, delayBefore(this.tries, Math.random()));
    this.tries += 1;
  }

  private receive(text: string): void {
    const frame = JSON.parse(text) as Frame;
    this.heardAt = Date.now();
    switch (frame.type) {
      case "hello":
        // After a pause something may have happened of which no event tells, such as a new worker.
        if (this.tries > 0) this.batch.refetch = true;
        this.tries = 0;
        this.place ??= frame.place;
        this.tell("live");
        break;
      case "events":
        this.place = frame.place;
        this.batch.events.push(...frame.events);
        for (const [kind, count] of Object.entries(frame.more ?? {})) this.batch.more[kind] = (this.batch.more[kind] ?? 0) + count;
        break;
      default:
        this.place = frame.place ?? this.place;
        this.batch.refetch = true;
    }
    this.schedule();
  }

  /** Frames that arrive together are handled together, once per picture; in a hidden page, once it is shown. */
  private schedule(): void {
    if (this.scheduled !== 0) return;
    this.scheduled = requestAnimationFrame(() => {
      this.scheduled = 0;
      const batch = this.batch;
      this.batch = emptyBatch();
      if (batch.refetch || batch.events.length > 0) this.listener.onBatch(batch);
    });
  }
}

function emptyBatch(): Batch {
  return { events: [], more: {}, refetch: false };
}
