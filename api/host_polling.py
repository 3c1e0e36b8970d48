"""Hosts that wait for a job: one look for all of them tells who has one.

Every enqueue of anyone is a hint. If each who waits looked at every hint, some hundred idle hosts would keep the
database from everyone else.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

import asyncpg

from atlas.api.app_state import AppState
from atlas.api.change_signals import ChangeSignals
from atlas.api.problems import AWAY
from atlas.db.statements import fetch, statement
from atlas.logs import get_logger
from atlas.waiting import wait_for

WITH_WORK = statement("api/sql/hosts_with_work.sql")

# How often is looked without a hint, and at most with hints.
LOOK_SECONDS = 2.0
LEAST_SECONDS = 0.1

log = get_logger("api")


class HostPolling:
    """All who wait in this process, by their host."""

    def __init__(self, api: AppState, hints: ChangeSignals) -> None:
        self._api = api
        self._hints = hints
        self._bells: defaultdict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._someone = asyncio.Event()

    @contextlib.contextmanager
    def bell(self, host_id: UUID) -> Iterator[asyncio.Event]:
        """Rings when the host may have a job. Taken before one looks, nothing is missed in between."""
        bell = asyncio.Event()
        self._bells[host_id].add(bell)
        self._someone.set()
        try:
            yield bell
        finally:
            self._bells[host_id].discard(bell)
            if not self._bells[host_id]:
                del self._bells[host_id]
            if not self._bells:
                self._someone.clear()

    async def run(self) -> None:
        """Look for as long as the process lives, while anyone waits."""
        heard = self._hints.jobs.next()
        while True:
            await self._someone.wait()
            await wait_for(heard, within=LOOK_SECONDS)
            heard = self._hints.jobs.next()
            try:
                await self._look()
            except (*AWAY, asyncpg.PostgresError) as error:
                log.warning("no look for hosts that wait", reason=str(error) or type(error).__name__)
            await asyncio.sleep(LEAST_SECONDS)

    async def _look(self) -> None:
        if self._hints.closing:
            for bells in self._bells.values():
                for bell in bells:
                    bell.set()
            return
        async with self._api.db.connection() as conn:
            found = await fetch(conn, WITH_WORK, hosts=list(self._bells))
        for row in found:
            # A host has one job at a time, however often it asks.
            silent = next((bell for bell in self._bells.get(row["id"], ()) if not bell.is_set()), None)
            if silent is not None:
                silent.set()
