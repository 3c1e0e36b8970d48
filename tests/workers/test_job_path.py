"""The path of a job through the code: from enqueue over claim, run and finish to its audit row."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from uuid import UUID

from atlas.engine.jobs import ClaimedJob, JobContext, NewJob, enqueue
from atlas.engine.jobs.claim import TurnResult
from atlas.engine.jobs.finish import Finish
from tests.support import DANA, ROOT, until

MOST_FILES = 14
# What a job is on its way; its id is what the audit row is made of.
A_JOB = (NewJob, ClaimedJob, JobContext, Finish, TurnResult, UUID)


async def test_a_job_is_passed_through_at_most_fourteen_files(pool, serving):
    async with pool.acquire() as conn, serving("test.noop", poll=60, lease=600) as worker:
        await asyncio.sleep(0.5)
        with functions_given_a_job() as path:
            await enqueue(conn, NewJob("test.noop", {"n": 1}), actor=DANA)
            await until(lambda: worker.finished == 1)

    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'JOB_SUCCEEDED'") == 1
    assert {"engine/jobs/enqueue.py", "audit/record.py", "engine/jobs/claim.py", "engine/jobs/finish.py"} <= set(path)
    assert len(path) <= MOST_FILES, path


@contextmanager
def functions_given_a_job() -> Iterator[dict[str, list[str]]]:
    """The functions of Atlas that are called meanwhile with a job, or with several, by their file."""
    path: dict[str, list[str]] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        file = code.co_filename.removeprefix(f"{ROOT}/")
        if event != "call" or file.startswith(("/", "<", ".venv/", "tests/")):
            return
        if any(map(is_job, [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]])):
            functions = path.setdefault(file, [])
            if code.co_name not in functions:
                functions.append(code.co_name)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield path
    finally:
        sys.setprofile(before)


def is_job(value: Any) -> bool:
    return isinstance(value, A_JOB) or (
        isinstance(value, list | tuple) and any(isinstance(one, A_JOB) for one in value)
    )
