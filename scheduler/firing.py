"""Fires triggers: at their due times, at a notification, and at least once a second.

The leader fires what is due. The other schedulers poll as well and fire what is late, so that nothing waits longer
than a few seconds for a leader that hangs.
"""

from atlas.db.pool import BATCH_SECONDS, TRANSACTION_SECONDS, Pool, borrow
from atlas.engine.triggers.fire_events import fire_due_events
from atlas.engine.triggers.fire_schedules import Polled, Unfired, fire_due
from atlas.logs import RepeatedWarning, get_logger
from atlas.scheduler.failures import log_repeated
from atlas.scheduler.leader import Leader
from atlas.scheduler.quarantine import Quarantine
from atlas.scheduler.tasks import TaskScheduler

# Due times and notifications are hints. Polling alone is correct.
POLL_SECONDS = 1.0
# What is this late is fired by any scheduler, leader or not.
LATE_SECONDS = 3.0

log = get_logger("scheduler.firing")


class TriggerTask:
    """Fires schedules and events, as a task of APScheduler."""

    def __init__(self, pool: Pool, leader: Leader, tasks: TaskScheduler) -> None:
        self._pool = pool
        self._leader = leader
        self._kinds = Quarantine(fire_due), Quarantine(fire_due_events)
        self._timeout = TRANSACTION_SECONDS
        self._failed = RepeatedWarning(log, "firing failed and is repeated")
        # Without jitter: the interval is how late a due time may be that no one knew of.
        self.task = tasks.add(POLL_SECONDS, self.fire, jitter=0.0)
        leader.on_change(self.task.wake)

    async def fire(self) -> float:
        """Fire what is due, and return how many seconds later the next trigger is due."""
        late_by = 0.0 if self._leader.leads else LATE_SECONDS
        try:
            async with borrow(self._pool, within=self._timeout) as conn:
                polled = [await kind.fire(conn, late_by=late_by) for kind in self._kinds]
        except Exception as error:
            if isinstance(error, TimeoutError):
                self._slow_down()
            cause = error.__cause__ if isinstance(error, Unfired) else error
            log_repeated(self._failed, log, cause if isinstance(cause, Exception) else error)
            return POLL_SECONDS
        self._timeout = TRANSACTION_SECONDS
        self._log(polled)
        waits = [result.next_in for result in polled if result.next_in is not None and not result.closed]
        return min([POLL_SECONDS, *(max(0.0, wait) for wait in waits)])

    def _slow_down(self) -> None:
        """After a timeout, a dead connection or a slow database: smaller batches, and more time for them."""
        self._timeout = min(2 * self._timeout, BATCH_SECONDS)
        for kind in self._kinds:
            kind.fire_singly()

    def _log(self, polled: list[Polled]) -> None:
        fired = sum(result.fired for result in polled)
        if fired:
            log.info("triggers fired", firings=fired, leads=self._leader.leads)
