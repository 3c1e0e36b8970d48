"""Which scheduler leads: the one that holds a lease, a row in the database.

Leading only saves work: what keeps a firing single is its record. A leader renews its lease by heartbeats, so another
scheduler follows one that is killed or frozen within a few seconds. It is a row and not the lock of a session, because
a pooler gives each transaction another session.

What falls due while a scheduler leads fires, however late. Who leads after a longer time without a leader records that
time as an outage: what fell due in it was missed.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from atlas.db.pool import connect
from atlas.db.schema import in_schema
from atlas.engine.triggers.misfire import GRACE
from atlas.logs import RepeatedWarning, get_logger
from atlas.scheduler.failures import log_repeated
from atlas.waiting import wait_for

HEARTBEAT_SECONDS = 0.5
LEASE_SECONDS = 2

# A time without a leader that is shorter than the grace is no outage.
_LEAD = """
update atlas.scheduler_leader
set holder = $1, expires_at = clock_timestamp() + $2 * interval '1 second',
  outages = outages + tstzmultirange(tstzrange(least(expires_at, ended.at), ended.at, '(]'))
from (select clock_timestamp() - $3 * interval '1 second' as at) ended
where holder = $1 or holder is null or expires_at < clock_timestamp()
returning true"""
_LEAVE = "update atlas.scheduler_leader set holder = null, expires_at = clock_timestamp() where holder = $1"

log = get_logger("scheduler.leader")


class Leader:
    """Tries to lead, on a connection of its own, while it runs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._changed: Callable[[], None] = lambda: None
        self._id = uuid4()
        self.leads = False

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when this scheduler leads, or no longer does."""
        self._changed = changed

    async def run(self, stop: asyncio.Event) -> None:
        """Hold the lease, or wait for it, until the stop event is set."""
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
            await self._heartbeat(conn)
            if not self.leads:
                log.info("another scheduler leads", takes_over_within_seconds=LEASE_SECONDS)
            while not await wait_for(stop, within=HEARTBEAT_SECONDS):
                await self._heartbeat(conn)
            await self._leave(conn)
        finally:
            # Not close(), which could wait for a server that is gone.
            conn.terminate()

    async def _heartbeat(self, conn: Any) -> None:
        async with asyncio.timeout(LEASE_SECONDS):
            self._set(bool(await conn.fetchval(in_schema(_LEAD), self._id, LEASE_SECONDS, GRACE.total_seconds())))

    async def _leave(self, conn: Any) -> None:
        """Let another scheduler lead at once."""
        async with asyncio.timeout(LEASE_SECONDS):
            await conn.execute(in_schema(_LEAVE), self._id)

    def _set(self, leads: bool) -> None:
        if leads != self.leads:
            self.leads = leads
            log.info("this scheduler leads" if leads else "this scheduler no longer leads")
            self._changed()
