"""The path of a job through the code: from enqueue over claim, run and finish to its audit row."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from uuid import UUID

from atlas.engine.jobs.claim import ClaimedJob, TurnResult
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import Finish
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.pgbouncer import without_pooler
from tests.support import DANA, ROOT, until

MAX_FILES = 15
# Libraries, what dataclasses generate, tests, and the base library that everything uses: statements, ids, JSON.
OTHERS = ("/", "<", ".venv/", "tests/", "atlas/")
# What a job is on its way, beside its id, which the audit row is made of.
A_JOB = (NewJob, ClaimedJob, JobContext, Finish, TurnResult)


@without_pooler("its connections are one file more")
async def test_a_job_passes_at_most_fifteen_files_of_the_engine_the_workers_and_the_audit_log(pool, serving, caplog):
    caplog.set_level(logging.INFO, "worker")
    async with pool.acquire() as conn, serving("test.noop", poll=60, lease=600) as worker:
        await asyncio.sleep(0.5)
        new = NewJob("test.noop", {"n": 1})
        with functions_with_a_job(new.id) as path:
            await enqueue(conn, new, actor=DANA)
            await until(lambda: worker.finished == 1)

    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'JOB_SUCCEEDED'") == 1
    assert {"engine/jobs/enqueue.py", "audit/record.py", "engine/jobs/claim.py", "engine/jobs/finish.py"} <= set(path)
    assert len(path) <= MAX_FILES, path


@contextmanager
def functions_with_a_job(job_id: UUID) -> Iterator[dict[str, list[str]]]:
    """The functions of Atlas that are given a job meanwhile, or return one, by their file."""
    path: dict[str, list[str]] = {}

    def is_job(value: Any) -> bool:
        return isinstance(value, A_JOB) or (isinstance(value, UUID) and value == job_id)

    def holds_job(value: Any) -> bool:
        return any(map(is_job, value)) if isinstance(value, list | tuple) else is_job(value)

    def watch(frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        file = code.co_filename.removeprefix(f"{ROOT}/")
        if file.startswith(OTHERS) or event not in ("call", "return"):
            return
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
        if any(map(holds_job, given if event == "call" else [result])):
            functions = path.setdefault(file, [])
            if code.co_name not in functions:
                functions.append(code.co_name)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield path
    finally:
        sys.setprofile(before)
