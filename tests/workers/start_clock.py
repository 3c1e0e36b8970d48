"""When a handler was started: the time at which its worker read the clock. Only for applications of `atlas worker`.

A process can be frozen between that and the first instruction of the handler.
"""

import threading

import atlas.engine.jobs.start_right
import atlas.workers.attempts.attempt
from atlas.engine.jobs.start_right import boot_seconds

_of_thread = threading.local()


def started_at() -> float:
    """For a handler that has just begun."""
    return float(_of_thread.read_at)


def _read_clock() -> float:
    _of_thread.read_at = boot_seconds()
    return float(_of_thread.read_at)


# What reads the clock before a start.
for _module in (atlas.engine.jobs.start_right, atlas.workers.attempts.attempt):
    _module.boot_seconds = _read_clock  # type: ignore[attr-defined]
