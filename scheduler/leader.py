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

import asyncpg

from atlas.db.pool import connect
from atlas.db.schema import in_schema
from atlas.engine.triggers.misfire import GRACE
from atlas.logs import get_logger
from atlas.scheduler.tasks import TaskScheduler

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
    """Tries to lead, on a connection of its own, by heartbeats that are a task of APScheduler."""

    def __init__(self, url: str, tasks: TaskScheduler) -> None:
        self._url = url
        self._changed: Callable[[], None] = lambda: None
        self._id = uuid4()
        self._conn: Any = None
        self.leads = False
        # Without jitter: a lease lasts for few heartbeats.
        tasks.add(HEARTBEAT_SECONDS, self.beat, jitter=0.0)
        tasks.at_end.append(self._leave)

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when this scheduler leads, or no longer does."""
        self._changed = changed

    async def beat(self) -> None:
        """Renew the lease, or try to get it. After an error the next heartbeat has a new connection."""
        is_first = self._conn is None
        try:
            if is_first:
                self._conn = await connect(self._url, application="atlas scheduler leader")
            await self._heartbeat(self._conn)
        except BaseException:
            self._disconnect()
            raise
        if is_first and not self.leads:
            log.info("another scheduler leads", takes_over_within_seconds=LEASE_SECONDS)

    async def _heartbeat(self, conn: Any) -> None:
        async with asyncio.timeout(LEASE_SECONDS):
            self._set(bool(await conn.fetchval(in_schema(_LEAD), self._id, LEASE_SECONDS, GRACE.total_seconds())))

    async def _leave(self) -> None:
        """Let another scheduler lead immediately."""
        try:
            if self._conn is not None:
                async with asyncio.timeout(LEASE_SECONDS):
                    await self._conn.execute(in_schema(_LEAVE), self._id)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            log.warning("the lease ends by itself", reason=str(error), within_seconds=LEASE_SECONDS)
        finally:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._conn is not None:
            # Not close(), which could wait for a server that is gone.
            self._conn.terminate()
            self._conn = None
        self._set(False)

    def _set(self, leads: bool) -> None:
        if leads != self.leads:
            self.leads = leads
            log.info("this scheduler leads" if leads else "this scheduler no longer leads")
            self._changed()
