"""The tasks of a scheduler process: APScheduler runs everything that happens because time passed.

A task is a job of APScheduler, on the event loop. One instance of it runs at a time: while it runs, its job has no next
time. Times that pass meanwhile, or while the process is frozen, count once, however late they are. What it raises is
logged with its cause; it ends neither the task nor the others.

APScheduler plans by the machine's clock, which may be set. Then every task runs now, and is planned anew.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from atlas.logs import RepeatedWarning, get_logger
from atlas.scheduler.failures import log_repeated
from atlas.waiting import wait_for

# Does some work; may return after how many seconds it is to be done again, if that is before its interval is over.
Work = Callable[[], Awaitable[float | None]]

JITTER = 0.1
# How often the machine's clock is compared with one that no one sets, and how far they may drift apart meanwhile.
CLOCK_SECONDS = 1.0
# Of one task, of which all but the first return immediately. With fewer, APScheduler warns after a stall.
MAX_INSTANCES = 1000

log = get_logger("scheduler")


class TaskScheduler:
    """Runs tasks at intervals, and earlier when they ask for it or are woken."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[Any]] = set()
        self.is_stopping = False
        # Called when the tasks have ended.
        self.at_end: list[Callable[[], Awaitable[None]]] = []
        self._tasks: list[Task] = []
        self._scheduler = AsyncIOScheduler(
            jobstores={"default": MemoryJobStore()},
            executors={"default": AsyncIOExecutor()},
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": MAX_INSTANCES},
            timezone=UTC,
        )

    def add(self, seconds: float, work: Work, *, jitter: float = JITTER) -> "Task":
        """Run the work now and at intervals. With jitter, so that several schedulers do not all run it together."""
        task = Task(work, self)
        trigger = IntervalTrigger(seconds=seconds, jitter=jitter * seconds or None, timezone=UTC)
        task.job = self._scheduler.add_job(task.run, trigger, name=task.name, next_run_time=datetime.now(UTC))
        self._tasks.append(task)
        return task

    async def run(self, stop: asyncio.Event) -> None:
        """Run the tasks until the stop event is set, and wait for the end of those that run then."""
        self._scheduler.start()
        try:
            apart = _clocks_apart()
            while not await wait_for(stop, within=CLOCK_SECONDS):
                if abs(_clocks_apart() - apart) > CLOCK_SECONDS:
                    apart = _clocks_apart()
                    log.warning("the clock of this machine was set; all tasks run now")
                    for task in self._tasks:
                        task.wake()
            self.is_stopping = True
            self._scheduler.pause()
            if self.running:
                await asyncio.wait(self.running)
            for end in self.at_end:
                await end()
        finally:
            self.is_stopping = True
            self._scheduler.shutdown(wait=False)


class Task:
    """One task. APScheduler calls `run`."""

    # Its job in APScheduler.
    job: Any

    def __init__(self, work: Work, tasks: TaskScheduler) -> None:
        self._work = work
        self._tasks = tasks
        self._is_running = False
        self._requested_in: float | None = None
        self.name = getattr(work, "__qualname__", repr(work))
        self._failed = RepeatedWarning(log, "a task failed and is repeated")

    def run_in(self, seconds: float) -> None:
        """Run again after this time, or before it."""
        if self._is_running:
            self._requested_in = seconds if self._requested_in is None else min(seconds, self._requested_in)
        # It has no next time while it is paused.
        elif self.job.next_run_time is not None and not self._tasks.is_stopping:
            at = datetime.now(UTC) + timedelta(seconds=seconds)
            self.job.modify(next_run_time=min(self.job.next_run_time, at))

    def wake(self) -> None:
        """Run now, and again if it runs just now."""
        self.run_in(0.0)

    async def run(self) -> None:
        """Do the work once, and plan when it is done again."""
        if self._is_running:
            # It was due again before this event loop came to it.
            return
        current = asyncio.current_task()
        assert current is not None
        self._tasks.running.add(current)
        self._is_running, self._requested_in = True, None
        planned = self.job.next_run_time
        self.job.pause()
        # After APScheduler's own callback, for which this instance runs until then.
        current.add_done_callback(lambda ended: self._plan(ended, planned))
        try:
            asked = await self._work()
        except Exception as error:
            log_repeated(self._failed, log, error, task=self.name)
        else:
            if asked is not None:
                self.run_in(asked)

    def _plan(self, ended: asyncio.Task[Any], planned: datetime | None) -> None:
        self._is_running = False
        self._tasks.running.discard(ended)
        if planned is not None and not self._tasks.is_stopping:
            now = datetime.now(UTC)
            at = planned if self._requested_in is None else min(planned, now + timedelta(seconds=self._requested_in))
            self.job.modify(next_run_time=max(at, now))


def _clocks_apart() -> float:
    return time.time() - time.monotonic()
