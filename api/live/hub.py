"""The hub of the live view: polls the database for all watchers, and sends each room its own events.

It polls only while there are watchers, at most five times a second. All watchers of one tenant are sent the same frame:
the events since the poll before, at most some of each kind, and counts of the rest. A frame carries the place in the
audit log that it reaches to; a client that reconnects with its last place is sent what it missed, or `refetch`.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import asyncpg
import orjson

from atlas.api.app_state import AppState
from atlas.api.caches.change_signals import ChangeSignals
from atlas.api.live.changes import (
    RUN,
    JobChanges,
    Room,
    RunningJobs,
    place_of,
    read_place,
    read_running,
    read_window,
    write_place,
)
from atlas.api.live.frames import EVENTS, MAX_OF_A_KIND, event_of, job_facts, refetch, write
from atlas.api.problems import AWAY
from atlas.audit.find import LogPosition
from atlas.errors import AtlasError
from atlas.logs import get_logger
from atlas.waiting import wait_for

POLL_SECONDS = 0.2
MAX_FRAMES = 50
# A room in which nothing happens is sent an empty frame this often: silence means that the server does not answer.
PING_SECONDS = 5.0

ACTIONS = sorted(EVENTS)
log = get_logger("live")


class Watcher:
    """One connection. Frames are queued here until they are sent; a connection that reads none is closed."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.frames: asyncio.Queue[str] = asyncio.Queue(MAX_FRAMES)
        self.offered_at = 0.0
        self.too_slow = asyncio.Event()

    def offer(self, frame: str) -> None:
        """Queue a frame for the connection."""
        self.offered_at = time.monotonic()
        try:
            self.frames.put_nowait(frame)
        except asyncio.QueueFull:
            self.too_slow.set()


class Hub:
    """All watchers of this process."""

    def __init__(self, api: AppState, signals: ChangeSignals) -> None:
        self._api = api
        self._signals = signals
        self._watchers: set[Watcher] = set()
        self._watched = asyncio.Event()
        self._place: LogPosition | None = None
        # What ran in each watched room at the last poll.
        self._running: dict[Room, RunningJobs] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    async def join(self, room: Room, since: str | None) -> Watcher:
        """Watch a tenant, or everything; `since` is the place of the last frame that the client saw."""
        watcher = Watcher(room)
        async with self._api.db.connection() as conn:
            if self._place is None or room not in self._running:
                place, running = await read_place(conn), await read_running(conn, [room])
                # Another watcher may have joined meanwhile, and frames may have been sent from its place on.
                self._place = self._place or place
                self._running.setdefault(room, running[room])
            # In the room before the missed events are read: some may be sent twice, none is left out.
            self._watchers.add(watcher)
            self._watched.set()
            try:
                place = await read_place(conn)
                missed = await self._missed(conn, room, since) if since is not None else None
            except BaseException:
                self.leave(watcher)
                raise
        watcher.offer(write({"type": "hello", "place": write_place(place), "room": "all" if room is None else room}))
        if missed is not None:
            watcher.offer(write(missed))
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Stop watching."""
        self._watchers.discard(watcher)
        if all(other.room != watcher.room for other in self._watchers):
            self._running.pop(watcher.room, None)
        if not self._watchers:
            self._watched.clear()
            self._place = None

    async def run(self) -> None:
        """Poll for as long as the process runs. A poll that failed is repeated a second later."""
        while True:
            await self._watched.wait()
            gate = self._signals.gate.next()
            await wait_for(gate, within=POLL_SECONDS)
            try:
                await self._poll()
            except (*AWAY, asyncpg.PostgresError, AtlasError) as error:
                log.warning("the live view could not poll", reason=str(error) or type(error).__name__)
                await asyncio.sleep(1)

    async def _poll(self) -> None:
        since = self._place
        if since is None:
            return
        before = dict(self._running)
        async with self._api.db.connection() as conn:
            window = await read_window(conn, since, ACTIONS, max_each=MAX_OF_A_KIND)
            running = await read_running(conn, before)
        if self._place is since:
            self._place = window.place
        for room in {watcher.room for watcher in self._watchers}:
            live: list[dict[str, Any]] = []
            # A room that was left and joined anew meanwhile begins with what its new watcher read.
            if room in before and self._running.get(room) is before[room]:
                live, self._running[room] = _changes(before[room], running[room]), running[room]
            for frame in _frames(window, live, room):
                text = write(frame)
                for watcher in self._watchers:
                    if watcher.room == room:
                        watcher.offer(text)
        self._ping(window.place)

    def _ping(self, place: LogPosition) -> None:
        """Send an empty frame to those who were sent nothing for a while. Only a poll that succeeded does so."""
        now = time.monotonic()
        silent = [watcher for watcher in self._watchers if now - watcher.offered_at >= PING_SECONDS]
        if silent:
            text = write({"type": "events", "place": write_place(place), "events": [], "more": {}})
            for watcher in silent:
                watcher.offer(text)

    async def _missed(self, conn: Any, room: Room, since: str) -> dict[str, Any] | None:
        place = place_of(since)
        if place is None:
            return refetch()
        try:
            window = await read_window(conn, place, ACTIONS, max_each=MAX_OF_A_KIND)
        except asyncpg.DataError:
            return refetch()
        missed = next(iter(_frames(window, [], room)), None)
        # All missed events or none: counts of what was missed are of no use.
        return refetch(missed["place"]) if missed is not None and missed.get("more") else missed


def _frames(window: JobChanges, live: list[dict[str, Any]], room: Room) -> list[dict[str, Any]]:
    """The frames for one room: none if nothing happened in it, two if too much happened in all and something here."""
    place = write_place(window.place)
    frames = [] if window.more is not None else [refetch(place)]
    events = [event_of(row) for row in window.rows if room is None or row["tenant_id"] in (room, None)]
    events += live
    more: dict[str, int] = defaultdict(int)
    for (tenant, action), count in (window.more or {}).items():
        if room is None or tenant in (room, None):
            more[EVENTS[action]] += count
    if events:
        events, cut = _shortened(events)
        for kind, count in cut.items():
            more[kind] += count
        frames.append({"type": "events", "place": place, "events": events, "more": more})
    return frames


def _shortened(events: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """At most some of each kind, the newest; a room of all tenants would otherwise have some of each tenant."""
    kept: list[dict[str, Any]] = []
    seen: dict[str, int] = defaultdict(int)
    cut: dict[str, int] = defaultdict(int)
    for event in reversed(list(events)):
        kind = event["event"]
        seen[kind] += 1
        if seen[kind] > MAX_OF_A_KIND:
            cut[kind] += 1
        else:
            kept.append(event)
    return kept[::-1], cut


def _changes(before: RunningJobs, now: RunningJobs) -> list[dict[str, Any]]:
    """Starts, progress, steps and suspensions of a room: none of them is in the audit log.

    Where more run than are read, a job may come into view that ran before, and leave it while it still runs.
    """
    events: list[dict[str, Any]] = []
    for id, job in now.jobs.items():
        earlier = before.jobs.get(id)
        if earlier is None and not before.may_hold(job.started_at):
            is_start, has_moved = False, job.progress is not None and before.may_hold(job.updated_at)
        else:
            is_start = earlier is None or earlier.attempt != job.attempt
            has_moved = earlier is not None and earlier.progress != job.progress
        if is_start:
            events.append({"event": "job_run.started", **job_facts(job.row)})
            if job.row["job_type"] == RUN:
                events.append({"event": "run.updated", "run_id": id, "status": "running"})
        elif has_moved:
            events.append({"event": "job_run.progress", **job_facts(job.row), "progress": _json(job.progress)})
        if earlier is not None and not is_start and job.stepped_at not in (None, earlier.stepped_at):
            events.append({"event": "run.updated", "run_id": id, "status": "steps_changed"})
    for id, job in before.jobs.items():
        if id not in now.jobs and job.row["job_type"] == RUN and now.may_hold(job.updated_at):
            events.append({"event": "run.updated", "run_id": id, "status": "put_down"})
    return events


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
