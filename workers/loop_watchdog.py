"""Names a handler that blocks the event loop in the log: while it blocks, this worker sends no heartbeat.

Time in which the event loop's thread waited for a processor does not count, nor time in which this whole process stood
still: a busy machine is not the handler's fault.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

from atlas.engine.jobs.context import JobContext
from atlas.logs import get_logger
from atlas.workers.running_attempt import attempt_in

BLOCKED_SECONDS = 1.0
LOOK_SECONDS = 0.2

log = get_logger("worker")

# The attempt that a task runs, if it is the task of a slot.
AttemptOf = Callable[[asyncio.Task[object]], JobContext | None]


class Reading(NamedTuple):
    """The time, and for how long the event loop's thread has had a processor, and has waited for one."""

    at: float
    ran: float
    waited: float


class LoopWatchdog:
    """A thread that expects a sign of life from the event loop and names the attempt that runs when none comes."""

    def __init__(self, attempt_of: AttemptOf) -> None:
        self._attempt_of = attempt_of
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.main_thread()
        self._beats = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the loop that runs in the calling thread."""
        assert loop.is_running()
        self._loop, self._thread = loop, threading.current_thread()
        threading.Thread(target=self._watch, name="atlas-loop-watchdog", daemon=True).start()

    def beat(self) -> None:
        """The loop is alive."""
        self._beats += 1

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _watch(self) -> None:
        beats, attempt, before, blocked = self._beats, None, self._read(), 0.0
        while not self._stopped.wait(LOOK_SECONDS):
            now, current = self._read(), self._running()
            if current is None or current is not attempt or beats != self._beats:
                blocked = 0.0
            else:
                longer = blocked + blocked_between(before, now)
                if blocked <= BLOCKED_SECONDS < longer:
                    self._report(current, longer)
                blocked = longer
            beats, attempt, before = self._beats, current, now

    def _read(self) -> Reading:
        return Reading(time.monotonic(), *_scheduled(self._thread.native_id))

    def _running(self) -> JobContext | None:
        """The attempt whose code the event loop runs now."""
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        attempt = self._attempt_of(task)
        if attempt is None and sys.version_info >= (3, 12):
            # A task that a handler started.
            attempt = attempt_in(task.get_context())
        return attempt

    def _report(self, attempt: JobContext, blocked: float) -> None:
        frame = sys._current_frames().get(self._thread.ident or 0)
        log.error(
            "handler blocks the event loop; make it a plain function, or await",
            **attempt.job.log_facts(attempt.worker_id),
            seconds=round(blocked, 2),
            where="".join(traceback.format_stack(frame)[-3:]) if frame else "",
        )


def blocked_between(before: Reading, now: Reading) -> float:
    """For how long the thread was kept between two looks: by computing, or asleep in a call that blocks.

    Only a thread that holds the interpreter's lock can keep the watchdog from looking in time, and that one computes.
    """
    passed = min(now.at - before.at, 2 * LOOK_SECONDS)
    return max(now.ran - before.ran, passed - (now.waited - before.waited))


def _scheduled(thread: int | None) -> tuple[float, float]:
    """For how many seconds a thread ran, and waited to run. Only Linux says it; elsewhere the clock alone decides."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat", "rb") as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9
