"""The loop that fires triggers: at the alarm, at a notification, and at least once a second.

The leader fires what is due. The other schedulers poll as well and fire what is late, so that nothing waits longer
than a few seconds for a leader that hangs.
"""

import asyncio
from datetime import timedelta
from typing import Any

from atlas.db.pool import BATCH_SECONDS, TRANSACTION_SECONDS, Connection, Pool, borrow
from atlas.engine.triggers.fire_events import fire_due_events
from atlas.engine.triggers.fire_schedules import Polled, Unfired, fire_due
from atlas.engine.triggers.store import list_schedules
from atlas.logs import RepeatedWarning, get_logger
from atlas.scheduler.alarm import Alarm
from atlas.scheduler.leader import Leader
from atlas.scheduler.loops import log_repeated
from atlas.scheduler.quarantine import Quarantine
from atlas.waiting import wait_for

# Alarms and notifications are hints. Polling alone is correct.
POLL_SECONDS = 1.0
# What is this late is fired by any scheduler, leader or not.
LATE_SECONDS = 3.0
RELOAD_SECONDS = 60.0
# The alarm is set for what is due soon; the rest is in the database, and a later reload sets it.
NEAR = timedelta(minutes=5)

log = get_logger("scheduler.firing")


class FiringLoop:
    """Fires schedules and events until it is stopped."""

    def __init__(self, pool: Pool, url: str) -> None:
        self._pool = pool
        self._awake = asyncio.Event()
        self.leader = Leader(url, self.schedules_changed)
        self.alarm = Alarm(self.wake)
        self._kinds = Quarantine(fire_due), Quarantine(fire_due_events)
        self._stale, self._armed = True, False
        self._reload_at = 0.0
        self._timeout = TRANSACTION_SECONDS
        self._failed = RepeatedWarning(log, "firing failed and is repeated")

    @property
    def is_ready(self) -> bool:
        """True when this scheduler leads and its alarm is set."""
        return self.leader.leads and self._armed

    def wake(self) -> None:
        """Poll now."""
        self._awake.set()

    def schedules_changed(self) -> None:
        """Set the alarm again, and poll now."""
        self._stale = True
        self.wake()

    async def run(self, stop: asyncio.Event) -> None:
        """Fire until the stop event is set."""
        self.alarm.start()
        leading = asyncio.create_task(self.leader.run(stop), name="leader")
        stopping = asyncio.create_task(_wake_at(stop, self.wake))
        try:
            while not stop.is_set():
                self._awake.clear()
                await wait_for(self._awake, within=await self._poll())
        finally:
            stopping.cancel()
            if not stop.is_set():
                leading.cancel()
            await asyncio.gather(leading, stopping, return_exceptions=True)
            self.alarm.stop()

    async def _poll(self) -> float:
        """Fire what is due, and return how long to wait until the next poll."""
        late_by = 0.0 if self.leader.leads else LATE_SECONDS
        try:
            async with borrow(self._pool, within=self._timeout) as conn:
                await self._set_alarm(conn)
                polled = [await kind.fire(conn, late_by=late_by) for kind in self._kinds]
        except Exception as error:
            if isinstance(error, TimeoutError):
                self._slow_down()
            cause = error.__cause__ if isinstance(error, Unfired) else error
            log_repeated(self._failed, log, cause if isinstance(cause, Exception) else error)
            return POLL_SECONDS
        self._timeout = TRANSACTION_SECONDS
        self._log(polled)
        waits = [one.next_in for one in polled if one.next_in is not None and not one.closed]
        return min([POLL_SECONDS, *(max(0.0, wait) for wait in waits)])

    def _slow_down(self) -> None:
        """After a timeout, a dead connection or a slow database: smaller batches, and more time for them."""
        self._timeout = min(2 * self._timeout, BATCH_SECONDS)
        for kind in self._kinds:
            kind.fire_singly()

    async def _set_alarm(self, conn: Connection) -> None:
        now = asyncio.get_running_loop().time()
        if self._stale or now >= self._reload_at:
            # Cleared before the schedules are read: a change in the meantime makes it stale again.
            self._stale, self._reload_at = False, now + RELOAD_SECONDS
            leads = self.leader.leads
            await self.alarm.set(await list_schedules(conn, within=NEAR) if leads else {})
            self._armed = leads

    def _log(self, polled: list[Polled]) -> None:
        fired = sum(one.fired for one in polled)
        if fired:
            log.info("triggers fired", firings=fired, leads=self.leader.leads)


async def _wake_at(stop: asyncio.Event, wake: Any) -> None:
    await stop.wait()
    wake()
