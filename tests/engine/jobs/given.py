"""Sentences that tests of jobs begin with."""

from typing import Any
from uuid import UUID

import orjson

from atlas.engine.hosts.hosts import add_host
from atlas.engine.jobs.claim import Claimant, ClaimedJob, claim
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import Finish
from atlas.engine.jobs.lease import new_worker_id, register_worker
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.verdicts import succeed
from tests.support import DANA


async def given_worker(conn: Any, *job_types: str, lease: float = 60) -> Claimant:
    """A worker that is alive and serves these types (all of them, if none is named)."""
    worker_id = new_worker_id()
    await register_worker(conn, worker_id, lease=lease, job_types=job_types)
    return Claimant(worker_id, list(job_types) or None)


async def given_job(conn: Any, job_type: str = "report.build", **options: Any) -> UUID:
    """A queued job."""
    return (await enqueue(conn, NewJob(job_type, options.pop("input", {"n": 1}), **options), actor=DANA)).id


async def given_host(conn: Any) -> UUID:
    """A host of the tenant that jobs have by default."""
    return (await add_host(conn, tenant_id=SYSTEM_TENANT, name="rack-1", actor=DANA)).id


async def given_claimed(conn: Any, job_type: str = "report.build", **options: Any) -> tuple[Claimant, ClaimedJob]:
    """A job in the hands of a living worker."""
    await given_job(conn, job_type, **options)
    worker = await given_worker(conn, job_type)
    [job] = await claim(conn, worker, limit=1)
    return worker, job


async def lose_lease(conn: Any, worker: Claimant) -> None:
    """Time passes: the worker's lease is over."""
    await conn.execute(
        "update atlas.job_workers set lease_expires_at = clock_timestamp() - interval '1 second' where worker_id = $1",
        worker.id,
    )


async def began_long_ago(conn: Any, job: ClaimedJob) -> None:
    """Time passes: a month since the job began."""
    await conn.execute(
        "update atlas.jobs set started_at = clock_timestamp() - interval '30 days' where id = $1", job.id
    )


async def make_due(conn: Any, job_id: UUID) -> None:
    """Time passes: the job is due."""
    await conn.execute(
        "update atlas.jobs set next_retry_at = clock_timestamp() - interval '1 second' where id = $1", job_id
    )


async def load(conn: Any, job_id: UUID) -> Any:
    """The job's row."""
    return await conn.fetchrow("select * from atlas.jobs where id = $1", job_id)


async def actions(conn: Any, job_id: UUID) -> list[str]:
    """What the audit log says happened to a job, in order."""
    rows = await conn.fetch("select action from atlas.audit_log where entity_id = $1 order by id", str(job_id))
    return [row["action"] for row in rows]


async def attempts(conn: Any, job_id: UUID) -> list[tuple[int, str, str | None]]:
    """Every attempt: number, status, outcome."""
    rows = await conn.fetch(
        "select attempt_no, status::text, outcome from atlas.job_runs where job_id = $1 order by attempt_no", job_id
    )
    return [tuple(row) for row in rows]


def success(worker: Claimant, job: ClaimedJob, output: dict[str, Any] | None = None) -> Finish:
    return succeed(job, worker.id, None if output is None else orjson.dumps(output).decode(), "JOB_SUCCEEDED")
