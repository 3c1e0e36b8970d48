"""The alarm: APScheduler wakes the firing loop at the due times of schedules.

It runs by this machine's clock, which may be wrong, and stores nothing. The database decides what is due, and
whether it has fired.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from atlas.engine.triggers.cron import Cron, known_cron
from atlas.errors import InvalidInput
from atlas.logs import get_logger

log = get_logger("scheduler.alarm")

# An expression and a zone.
Schedule = tuple[str, str]

# After so many changes other tasks of the event loop run.
SET_AT_ONCE = 100


class CronTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler brings no types
    """The due times of one schedule, for APScheduler."""

    __slots__ = ("cron",)

    def __init__(self, cron: Cron) -> None:
        self.cron = cron

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The next due time. Times in the past are left out: the database has them."""
        return self.cron.after(now if previous_fire_time is None else max(now, previous_fire_time))

    def __str__(self) -> str:
        return f"{self.cron.fields} {self.cron.zone.key}"


class Alarm:
    """Calls `ring` at every due time of its schedules; triggers with the same schedule share one alarm."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = _ringing(ring)
        self._jobs: dict[Schedule, Any] = {}
        defaults = {"coalesce": True, "misfire_grace_time": None, "max_instances": 100}
        self._scheduler = AsyncIOScheduler(jobstores={"default": MemoryJobStore()}, job_defaults=defaults, timezone=UTC)

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self) -> None:
        """Start calling."""
        self._scheduler.start()

    def stop(self) -> None:
        """Stop calling."""
        self._scheduler.shutdown(wait=False)

    async def set(self, schedules: Mapping[Schedule, datetime]) -> None:
        """Replace the schedules by these, each with its next due time."""
        # Paused, so that thousands of changes set the timer once.
        self._scheduler.pause()
        for gone in self._jobs.keys() - schedules.keys():
            self._jobs.pop(gone).remove()
        for number, new in enumerate(schedules.keys() - self._jobs.keys()):
            self._add(new, schedules[new])
            if number % SET_AT_ONCE == SET_AT_ONCE - 1:
                await asyncio.sleep(0)
        self._scheduler.resume()

    def _add(self, schedule: Schedule, first: datetime) -> None:
        try:
            trigger = CronTrigger(known_cron(*schedule))
            self._jobs[schedule] = self._scheduler.add_job(self._ring, trigger, next_run_time=first)
        except InvalidInput as error:
            log.warning("a schedule cannot be read on this machine", schedule=" ".join(schedule), reason=str(error))


def _ringing(ring: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def rings() -> None:
        # A coroutine: APScheduler would call a plain function in a thread.
        ring()

    return rings
