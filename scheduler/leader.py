"""Which scheduler leads: the one whose session holds an advisory lock.

Leading only saves work: what keeps a firing single is its record. The lock ends with the session, so another scheduler
follows a leader that is killed within a second or two. A leader that is frozen keeps its connection. Its session
therefore has an idle timeout of a few seconds, and the leader keeps it alive by heartbeats.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from atlas.db.pool import connect
from atlas.db.schema import in_schema
from atlas.logs import RepeatedWarning, get_logger
from atlas.scheduler.loops import log_repeated
from atlas.waiting import wait_for

HEARTBEAT_SECONDS = 0.5
IDLE_SECONDS = 2

_TRY = "select pg_try_advisory_lock(atlas.lock_class('leader'), 0)"
_IDLE_TIMEOUT = f"set idle_session_timeout = '{IDLE_SECONDS}s'"

log = get_logger("scheduler.leader")


class Leader:
    """Tries to lead, on a connection of its own, while it runs."""

    def __init__(self, url: str, changed: Callable[[], None]) -> None:
        self._url = url
        self._changed = changed
        self.leads = False

    async def run(self, stop: asyncio.Event) -> None:
        """Hold the lock, or wait for it, until the stop event is set."""
        failed = RepeatedWarning(log, "the leader's session ended")
        while not stop.is_set():
            try:
                await self._session(stop)
            except Exception as error:
                log_repeated(failed, log, error, led=self.leads)
            self._set(False)
            await wait_for(stop, within=HEARTBEAT_SECONDS)

    async def _session(self, stop: asyncio.Event) -> None:
        conn = await connect(self._url, application="atlas scheduler leader")
        try:
            while not stop.is_set():
                await self._heartbeat(conn)
                await wait_for(stop, within=HEARTBEAT_SECONDS)
        finally:
            # Not close(), which could wait for a server that is gone. The lock ends with the session either way.
            conn.terminate()

    async def _heartbeat(self, conn: Any) -> None:
        async with asyncio.timeout(IDLE_SECONDS):
            if self.leads:
                await conn.execute("select 1")
            elif await conn.fetchval(in_schema(_TRY)):
                await conn.execute(_IDLE_TIMEOUT)
                self._set(True)

    def _set(self, leads: bool) -> None:
        if leads != self.leads:
            self.leads = leads
            log.info("this scheduler leads" if leads else "this scheduler no longer leads")
            self._changed()
