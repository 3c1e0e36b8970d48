"""Names a handler that blocks the event loop in the log: while it blocks, this worker sends no heartbeat."""

import asyncio
import sys
import threading
import time
import traceback
from types import CodeType, FrameType

from atlas.engine.jobs.types import registered
from atlas.logs import get_logger

BLOCKED_SECONDS = 1.0

log = get_logger("worker")


class LoopWatchdog:
    """A thread that expects a sign of life from the event loop and logs the stack when none comes."""

    def __init__(self) -> None:
        self._last_beat = time.monotonic()
        self._stopped = threading.Event()
        self._loop_thread = 0
        self._is_reported = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the loop that runs in the calling thread."""
        assert loop.is_running()
        self._loop_thread = threading.get_ident()
        threading.Thread(target=self._watch, name="atlas-loop-watchdog", daemon=True).start()

    def beat(self) -> None:
        """The loop is alive."""
        self._last_beat = time.monotonic()
        self._is_reported = False

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(BLOCKED_SECONDS / 4):
            silent = time.monotonic() - self._last_beat
            if silent > BLOCKED_SECONDS and not self._is_reported:
                self._is_reported = True
                self._report(silent)

    def _report(self, silent: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        log.error(
            "handler blocks the event loop; make it a plain function, or await",
            job_type=_job_type_in(frame) or "unknown",
            seconds=round(silent, 2),
            where="".join(traceback.format_stack(frame)[-3:]) if frame else "",
        )


def _job_type_in(frame: FrameType | None) -> str | None:
    """The job type whose handler is on the stack."""
    handlers: dict[CodeType, str] = {
        code: key for key, one in registered().items() if (code := getattr(one.handler, "__code__", None)) is not None
    }
    while frame is not None:
        if frame.f_code in handlers:
            return handlers[frame.f_code]
        frame = frame.f_back
    return None
