"""Long polling for hosts: one query for all waiting hosts says which of them have a job.

Every enqueue sends a notification. If each waiting request queried after every notification, a few hundred idle hosts
would keep the database from everyone else.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

import asyncpg

from atlas.api.app_state import AppState
from atlas.api.caches.change_signals import ChangeSignals
from atlas.api.problems import AWAY
from atlas.db.statements import fetch, statement
from atlas.logs import get_logger
from atlas.waiting import wait_for_any

WITH_WORK = statement("api/sql/hosts_with_work.sql")

# How often is polled without a notification, and the shortest pause between two polls.
POLL_SECONDS = 2.0
PAUSE_SECONDS = 0.1
# Added to a due time, so that no timer fires just before it.
TIMER_SECONDS = 0.005

log = get_logger("api")


class HostPolling:
    """All requests of hosts that wait in this process."""

    def __init__(self, api: AppState, signals: ChangeSignals) -> None:
        self._api = api
        self._signals = signals
        self._waiting: defaultdict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._is_waited = asyncio.Event()
        # A request began to wait since the last poll, which did not ask when its host's next job is due.
        self._joined = asyncio.Event()

    @contextlib.contextmanager
    def signal(self, host_id: UUID) -> Iterator[asyncio.Event]:
        """An event that is set when the host may have a job. Take it before querying, and no change is missed."""
        has_work = asyncio.Event()
        self._waiting[host_id].add(has_work)
        self._is_waited.set()
        self._joined.set()
        try:
            yield has_work
        finally:
            self._waiting[host_id].discard(has_work)
            if not self._waiting[host_id]:
                del self._waiting[host_id]
            if not self._waiting:
                self._is_waited.clear()

    async def run(self) -> None:
        """Poll for as long as the process runs, while any request waits: after changes, and when a job falls due."""
        changed, next_poll = self._signals.jobs.next(), 0.0
        while True:
            await self._is_waited.wait()
            await wait_for_any(changed, self._joined, within=next_poll - time.monotonic())
            changed, next_poll = self._signals.jobs.next(), time.monotonic() + POLL_SECONDS
            self._joined.clear()
            try:
                due_in = await self._poll()
                next_poll = min(next_poll, time.monotonic() + due_in + TIMER_SECONDS)
            except (*AWAY, asyncpg.PostgresError) as error:
                log.warning("waiting hosts could not be polled", reason=str(error) or type(error).__name__)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _poll(self) -> float:
        """Wake the hosts that have a job. Returns the seconds until another of them may have one."""
        if self._signals.closing:
            for requests in self._waiting.values():
                for has_work in requests:
                    has_work.set()
            return POLL_SECONDS
        async with self._api.db.connection() as conn:
            rows = await fetch(conn, WITH_WORK, hosts=list(self._waiting), ahead=POLL_SECONDS)
        for row in (row for row in rows if row["seconds"] <= 0):
            # A host has one job at a time, however many requests it sends.
            unset = next((waiter for waiter in self._waiting.get(row["id"], ()) if not waiter.is_set()), None)
            if unset is not None:
                unset.set()
        return min((row["seconds"] for row in rows if row["seconds"] > 0), default=POLL_SECONDS)
