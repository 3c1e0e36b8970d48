"""Names a handler that blocks the event loop in the log: while it blocks, this worker sends no heartbeat.

A thread does that. Where the handler keeps the interpreter's lock as well, no thread can: `WorkerWatchdog` is the
worker's side of a process that reports the handler, and ends the worker.

Time in which the event loop's thread waited for a processor does not count, nor time in which this whole process stood
still: a busy machine is not the handler's fault.
"""

import asyncio
import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.logs import get_logger
from atlas.workers.attempts.running_attempt import attempt_in
from atlas.workers.watchdog import watchdog_process
from atlas.workers.watchdog.thread_table import share_threads
from atlas.workers.watchdog.watchdog_process import BEAT, LOOKS
from atlas.workers.worker_lease import WorkerLease

BLOCKED_SECONDS = 1.0
LOOK_SECONDS = 0.2
MAX_BEAT_SECONDS = 1.0
STOP_SECONDS = 1.0
# Nothing else uses it. Only Linux has signals to spare.
_STACK_SIGNAL: int | None = signal.SIGRTMAX - 3 if hasattr(signal, "SIGRTMAX") else None

log = get_logger("worker")

# The attempt that a task runs, if it is the task of a slot.
AttemptOf = Callable[[asyncio.Task[object]], AttemptContext | None]


class Reading(NamedTuple):
    """The time, and for how long the event loop's thread has had a processor, and has waited for one."""

    at: float
    ran: float
    waited: float


class LoopWatchdog:
    """A thread that expects a sign of life from the event loop and names the attempt that runs when none comes."""

    def __init__(self, attempt_of: AttemptOf, process: "WorkerWatchdog | None" = None) -> None:
        self._attempt_of = attempt_of
        self._process = process
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.main_thread()
        self._beats = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the loop that runs in the calling thread."""
        assert loop.is_running()
        self._loop, self._thread = loop, threading.current_thread()
        threading.Thread(target=self._watch, name="atlas-loop-watchdog", daemon=True).start()
        if self._process is not None:
            self._process.start(self._running)

    def beat(self) -> None:
        """The loop is alive."""
        self._beats += 1
        if self._process is not None:
            self._process.beat()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        if self._process is not None:
            self._process.stop()

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
                if longer > BLOCKED_SECONDS and self._process is not None:
                    self._process.name(current)
                blocked = longer
            beats, attempt, before = self._beats, current, now

    def _read(self) -> Reading:
        return Reading(time.monotonic(), *_scheduled(self._thread.native_id))

    def _running(self) -> AttemptContext | None:
        """The attempt whose code the event loop runs now."""
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        attempt = self._attempt_of(task)
        if attempt is None and sys.version_info >= (3, 12):
            # A task that a handler started.
            attempt = attempt_in(task.get_context())
        return attempt

    def _report(self, attempt: AttemptContext, blocked: float) -> None:
        frame = sys._current_frames().get(self._thread.ident or 0)
        log.error(
            "handler blocks the event loop; make it a plain function, or await",
            **attempt.job.log_facts(attempt.worker_id),
            seconds=round(blocked, 2),
            where="".join(traceback.format_stack(frame)[-3:]) if frame else "",
        )


class WorkerWatchdog:
    """The process that ends this one when its event loop does not turn any more: see watchdog_process.py."""

    def __init__(self, url: str, lease: WorkerLease) -> None:
        self._url = url
        self._lease = lease
        self._process: subprocess.Popen[bytes] | None = None
        self._running: Callable[[], AttemptContext | None] = lambda: None
        self._signal: int | None = None
        self._beat_at = 0.0

    def start(self, running: Callable[[], AttemptContext | None]) -> None:
        """Start it. `running` returns the attempt whose code the event loop runs."""
        self._running = running
        threads = share_threads()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog_process.__file__],
            stdin=subprocess.PIPE,
            pass_fds=[threads],
            # Ctrl-C in a terminal is for the worker, whose end closes the pipe.
            start_new_session=True,
        )
        os.set_blocking(self._input, False)
        self._answer_signal()
        order = {"pid": os.getpid(), "lease": self._lease.seconds, "url": self._url, "signal": self._signal}
        self._write(json.dumps({**order, "threads": threads}).encode())

    def beat(self) -> None:
        """The event loop turns."""
        if time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + min(MAX_BEAT_SECONDS, self._lease.seconds * LOOKS)
            if self._process is not None and self._process.poll() is not None:
                self.stop()
                self.start(self._running)
            self._write(BEAT + self._lease.worker_id.encode())

    def name(self, attempt: AttemptContext | None) -> None:
        """This attempt keeps the event loop."""
        self._write(json.dumps({"job_id": None if attempt is None else str(attempt.job_id)}).encode())

    def stop(self) -> None:
        """End it."""
        if self._signal is not None:
            faulthandler.unregister(self._signal)
            signal.signal(self._signal, signal.SIG_DFL)
            self._signal = None
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
            self._process = None

    @property
    def _input(self) -> int:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    def _answer_signal(self) -> None:
        """Write the stacks when the watchdog asks for them, without the interpreter's lock; then the attempt."""
        if _STACK_SIGNAL is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(_STACK_SIGNAL) == signal.SIG_DFL:
            self._signal = _STACK_SIGNAL
            signal.signal(self._signal, lambda *_: self._answer())
            faulthandler.register(self._signal, file=self._input, all_threads=True, chain=True)

    def _answer(self) -> None:
        """Name the attempt; or say that all is well, where a debugger holds the event loop."""
        if sys.gettrace() is None:
            self.name(self._running())
        else:
            self._write(BEAT + self._lease.worker_id.encode())

    def _write(self, line: bytes) -> None:
        # One that does not read, or has ended, must not stop the worker.
        with suppress(OSError):
            if self._process is not None:
                os.write(self._input, line + b"\n")


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
