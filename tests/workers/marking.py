"""Handlers that leave a mark outside of the database when they start: an application of `atlas worker`, for it alone.

A start is the time at which the worker has read its clock. A process can be frozen between that and the first
instruction of the handler, so both are written down.
"""

import os
import threading
from typing import Any

import atlas.engine.jobs.start_right
import atlas.workers.attempt
from atlas.engine.jobs.start_right import boot_seconds
from atlas.engine.jobs.typed_job import job

_of_thread = threading.local()


def _read_clock() -> float:
    _of_thread.read_at = boot_seconds()
    return float(_of_thread.read_at)


# What reads the clock before a start.
for _module in (atlas.engine.jobs.start_right, atlas.workers.attempt):
    _module.boot_seconds = _read_clock  # type: ignore[attr-defined]


@job("test.marks")
async def marks(input: dict[str, Any]) -> None:
    """Keeps its worker busy briefly."""
    _mark(input["folder"])
    threading.Event().wait(0.001)


@job("test.marks_in_thread")
def marks_in_thread(input: dict[str, Any]) -> None:
    """The same in a thread."""
    _mark(input["folder"])
    threading.Event().wait(0.01)


def _mark(folder: str) -> None:
    began_at = boot_seconds()
    with open(f"{folder}/{os.getpid()}", "a") as file:
        file.write(f"{_of_thread.read_at} {began_at}\n")
