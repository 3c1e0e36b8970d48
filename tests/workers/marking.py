"""Handlers that leave a mark outside of the database when they start: an application of `atlas worker`, for it alone.

A start is the time at which the worker has read its clock. A process can be frozen between that and the first
instruction of the handler, so both are written down.
"""

import os
import threading
from typing import Any

from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.start_right import boot_seconds
from tests.workers.start_clock import started_at


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
        file.write(f"{started_at()} {began_at}\n")
