"""The path of a job through the code: from enqueue over claim, run and finish to its audit row."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from atlas.engine.jobs import NewJob, enqueue
from tests.support import DANA, ROOT, until

MOST_FILES = 14
# The base library: connections, statements, ids, actors, JSON. Everything uses it, whatever it does.
BASE = "atlas/"


async def test_a_job_passes_at_most_fourteen_files_of_the_engine_the_workers_and_the_audit(pool, serving):
    async with pool.acquire() as conn, serving("test.noop", poll=60, lease=600) as worker:
        await until(lambda: worker.id)
        await asyncio.sleep(0.5)
        with functions_called() as idle:
            await asyncio.sleep(0.5)
        with functions_called() as called:
            await enqueue(conn, NewJob("test.noop", {"n": 1}), actor=DANA)
            await until(lambda: worker.finished == 1)

    path = {file for file, _ in called - idle if not file.startswith((BASE, "tests/"))}
    assert {"engine/jobs/enqueue.py", "engine/jobs/claim.py", "engine/jobs/finish.py", "audit/record.py"} <= path
    assert len(path) <= MOST_FILES, sorted(path)


@contextmanager
def functions_called() -> Iterator[set[tuple[str, str]]]:
    """The functions of this repository that are called meanwhile, each as its file and its name."""
    called: set[tuple[str, str]] = set()
    root = f"{ROOT}/"

    def watch(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(root) and "/.venv/" not in path:
            called.add((path.removeprefix(root), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield called
    finally:
        sys.setprofile(before)
