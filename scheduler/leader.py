"""Which scheduler leads: the one whose session holds an advisory lock.

Leading saves work and nothing else: what keeps a firing single is its record. The lock falls with the session, so a
leader that is killed is followed within a second or two. One that is frozen keeps its connection; its session is
therefore told to end when nothing is heard of it for a few seconds, and it keeps the session alive by asking.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from atlas.db.pool import connect
from atlas.db.schema import in_schema
from atlas.logs import get_logger
from atlas.scheduler.loops import tell
from atlas.waiting import wait_for

ASK_SECONDS = 0.5
SILENT_SECONDS = 2

_TRY = "select pg_try_advisory_lock(atlas.lock_class('leader'), 0)"
_MORTAL = f"set idle_session_timeout = '{SILENT_SECONDS}s'"

log = get_logger("scheduler.leader")


class Leader:
    """Tries to lead, on a connection of its own, for as long as it runs."""

    def __init__(self, url: str, changed: Callable[[], None]) -> None:
        self._url = url
        self._changed = changed
        self.leads = False

    async def run(self, stop: asyncio.Event) -> None:
        """Hold the lock, or wait for it, until told to stop."""
        while not stop.is_set():
            try:
                await self._session(stop)
            except Exception as error:
                tell(log, "the leader's session ended", error, led=self.leads)
            self._set(False)
            await wait_for(stop, within=ASK_SECONDS)

    async def _session(self, stop: asyncio.Event) -> None:
        conn = await connect(self._url, application="atlas scheduler leader")
        try:
            while not stop.is_set():
                await self._ask(conn)
                await wait_for(stop, within=ASK_SECONDS)
        finally:
            # Not a polite goodbye, which could wait for a server that is gone: the lock falls all the same.
            conn.terminate()

    async def _ask(self, conn: Any) -> None:
        async with asyncio.timeout(SILENT_SECONDS):
            if self.leads:
                await conn.execute("select 1")
            elif await conn.fetchval(in_schema(_TRY)):
                await conn.execute(_MORTAL)
                self._set(True)

    def _set(self, leads: bool) -> None:
        if leads != self.leads:
            self.leads = leads
            log.info("this scheduler leads" if leads else "this scheduler leads no more")
            self._changed()
