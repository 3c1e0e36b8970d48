"""The loop that lets triggers fire: at the alarm, at a notification, and in any case after a second.

The leader fires what is due. The others look as well, for what is late: whatever holds the leader up, nothing waits
longer than a few seconds for it.
"""

import asyncio
from datetime import timedelta
from typing import Any

from atlas.db.pool import BATCH_SECONDS, Connection, Pool, borrow
from atlas.engine.triggers import Round, Unfired, fire_due, fire_due_events, list_schedules
from atlas.logs import get_logger
from atlas.scheduler.alarm import Alarm
from atlas.scheduler.leader import Leader
from atlas.scheduler.loops import ANSWER_SECONDS, tell
from atlas.scheduler.quarantine import Quarantine
from atlas.waiting import wait_for

# The truth behind the alarm and the notifications.
LOOK_SECONDS = 1.0
# What is this late is fired by whoever sees it, leader or not.
LATE_SECONDS = 3.0
RELOAD_SECONDS = 60.0
# The alarm is set for what is due soon; what is further off is in the database, and is set in time.
NEAR = timedelta(minutes=5)

log = get_logger("scheduler.firing")


class FiringLoop:
    """Lets schedules and events fire until it is told to stop."""

    def __init__(self, pool: Pool, url: str) -> None:
        self._pool = pool
        self._awake = asyncio.Event()
        self.leader = Leader(url, self.schedules_changed)
        self.alarm = Alarm(self.wake)
        self._kinds = Quarantine(fire_due), Quarantine(fire_due_events)
        self._stale, self._armed = True, False
        self._reload_at = 0.0
        self._patience = ANSWER_SECONDS

    @property
    def is_ready(self) -> bool:
        """True when it leads and its alarm is set."""
        return self.leader.leads and self._armed

    def wake(self) -> None:
        """Look now."""
        self._awake.set()

    def schedules_changed(self) -> None:
        """Set the alarm anew, and look now."""
        self._stale = True
        self.wake()

    async def run(self, stop: asyncio.Event) -> None:
        """Fire until told to stop."""
        self.alarm.start()
        leading = asyncio.create_task(self.leader.run(stop), name="leader")
        stopping = asyncio.create_task(_wake_at(stop, self.wake))
        try:
            while not stop.is_set():
                self._awake.clear()
                await wait_for(self._awake, within=await self._round())
        finally:
            stopping.cancel()
            if not stop.is_set():
                leading.cancel()
            await asyncio.gather(leading, stopping, return_exceptions=True)
            self.alarm.stop()

    async def _round(self) -> float:
        """Look once, and answer how long to rest."""
        late_by = 0.0 if self.leader.leads else LATE_SECONDS
        try:
            async with borrow(self._pool, within=self._patience) as conn:
                await self._set_alarm(conn)
                rounds = [await kind.fire(conn, late_by=late_by) for kind in self._kinds]
        except Exception as error:
            if isinstance(error, TimeoutError):
                self._be_brief()
            cause = error.__cause__ if isinstance(error, Unfired) else error
            tell(log, "firing failed and is repeated", cause if isinstance(cause, Exception) else error)
            return LOOK_SECONDS
        self._patience = ANSWER_SECONDS
        self._tell(rounds)
        waits = [one.next_in for one in rounds if one.next_in is not None and not one.closed]
        return min([LOOK_SECONDS, *(max(0.0, wait) for wait in waits)])

    def _be_brief(self) -> None:
        """A line went silent, or the database is so slow: then less at a time, and more time for it."""
        self._patience = min(2 * self._patience, BATCH_SECONDS)
        for kind in self._kinds:
            kind.be_brief()

    async def _set_alarm(self, conn: Connection) -> None:
        now = asyncio.get_running_loop().time()
        if self._stale or now >= self._reload_at:
            # Said before it is done: what changes meanwhile makes it stale again.
            self._stale, self._reload_at = False, now + RELOAD_SECONDS
            leads = self.leader.leads
            await self.alarm.set(await list_schedules(conn, within=NEAR) if leads else {})
            self._armed = leads

    def _tell(self, rounds: list[Round]) -> None:
        fired = sum(one.fired for one in rounds)
        if fired:
            log.info("triggers fired", firings=fired, leads=self.leader.leads)


async def _wake_at(stop: asyncio.Event, wake: Any) -> None:
    await stop.wait()
    wake()
