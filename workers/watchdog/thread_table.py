"""Which thread runs which job, in memory that the watchdog's process reads.

A plain function that keeps the interpreter's lock, in a thread, stops every other thread: no one in the worker can be
asked then. So each thread writes down which job it begins. Nothing is written in a process without a watchdog.
"""

import itertools
import mmap
import os
import tempfile
import threading
from uuid import UUID

from atlas.workers.watchdog.watchdog_process import THREAD

MAX_THREADS = 1024

_NONE = bytes(16)
_places = itertools.count()
_local = threading.local()
_memory: mmap.mmap | None = None
_file = -1


def share_threads() -> int:
    """Make the table, unless it is there, and return its file, which a child process may inherit."""
    global _memory, _file
    if _memory is None:
        with tempfile.TemporaryFile() as file:
            file.truncate(MAX_THREADS * THREAD.size)
            _file = os.dup(file.fileno())
        _memory = mmap.mmap(_file, MAX_THREADS * THREAD.size)
    return _file


def note_job(job_id: UUID | None) -> None:
    """This thread begins to run a job, or has ended it."""
    if _memory is None:
        return
    place = getattr(_local, "place", None)
    if place is None:
        place = _local.place = next(_places) % MAX_THREADS
    entry = (threading.get_native_id(), threading.get_ident(), _NONE if job_id is None else job_id.bytes)
    THREAD.pack_into(_memory, place * THREAD.size, *entry)
