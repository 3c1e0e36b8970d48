"""Reads jobs: one, those of a page, the attempts of one, and how many there are by type and status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from atlas.db.pg_json import read_stored
from atlas.db.pool import Connection, Queryable
from atlas.db.prisma import page_filter, prisma_on
from atlas.db.statements import statement
from atlas.models.rows import from_rows, prisma_name
from atlas.models.system import QueueDepth

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import JobRunWhereInput

DEPTH = statement("engine/jobs/lists/sql/depth.sql")
COUNT_DUE = statement("engine/jobs/lists/sql/count_due.sql")

# The most rows about types and statuses; callers may invent types.
MAX_DEPTHS = 200
# The year of a due time that means: without an end.
FOREVER = 9999
# An attempt as it is shown.
_OF_ATTEMPT = (
    *("job_run_id", "attempt_no", "worker_id", "host_id", "pid", "status", "started_at", "finished_at", "duration_ms"),
    *("exit_code", "stdout_tail", "stderr_tail", "log_tail", "error_text", "outcome", "result", "log_ref"),
)
# No attempt has a number after it.
_LAST_ATTEMPT = 2**31 - 1


@dataclass(slots=True)
class JobRow:
    """A job as it is read. `status` is the stored one; `shown_status` also the derived `waiting` and `dead_letter`.

    It is not frozen: making a frozen one takes four times as long, and a list makes a hundred.
    """

    id: UUID
    tenant_id: UUID
    status: str
    shown_status: str
    job_type: str
    definition_id: UUID | None
    priority: int
    input: dict[str, Any]
    output: Any
    error: dict[str, Any]
    cost_cents: int
    retry_count: int
    max_retries: int
    # When it is due next; None for a job that is due, has finished, or waits without an end.
    next_retry_at: datetime | None
    # The time that it was enqueued for; None for a job without one.
    scheduled_for: datetime | None
    attempt_count: int
    lost_count: int
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_expires_at: datetime | None
    claimed_by: str | None
    dead_lettered_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_requested_by: str | None
    dedupe_key: str | None
    correlation_id: str | None
    source: str
    source_ref: str | None
    created_by: str | None
    timeout_seconds: int | None
    host_id: UUID | None
    server_instance_id: UUID | None
    parent_run_id: UUID | None
    progress: dict[str, Any] | None
    # The latest time at which its next attempt may start, and at which its attempts end.
    start_by: datetime | None
    finish_by: datetime | None
    group_id: UUID | None


# What the statement computes, what a list leaves out, and what is JSON.
_COMPUTED = ("shown_status", "max_retries", "error")
_NOT_LISTED = ("input", "output")
_DOCUMENTS = ("input", "output", "error", "progress")
_STORED = [field.name for field in fields(JobRow) if field.name not in _COMPUTED]
READ = statement("engine/jobs/lists/sql/read_jobs.sql").of_columns(_STORED)
READ_LISTED = statement("engine/jobs/lists/sql/read_jobs.sql").of_columns(
    [name for name in _STORED if name not in _NOT_LISTED]
)


async def get_job(conn: Queryable, job_id: UUID, *, tenant_id: UUID | None = None) -> JobRow | None:
    """One job, or None if there is none, or none in that tenant."""
    jobs = await read_jobs(conn, [job_id], tenant_id=tenant_id)
    return jobs[0] if jobs else None


async def read_jobs(
    conn: Queryable, ids: Sequence[UUID], *, tenant_id: UUID | None = None, whole: bool = True
) -> list[JobRow]:
    """The jobs with these ids that there are, or those of a tenant, in the order of the ids.

    Without `whole` they have no inputs and outputs, and of their errors the beginning.
    """
    if not ids:
        return []
    query = READ if whole else READ_LISTED
    rows = await conn.fetch(query.sql, *query.bind({"ids": list(ids), "tenant_id": tenant_id, "whole": whole}))
    jobs = {row["id"]: row for row in rows}
    return [_job_row(jobs[id]) for id in ids if id in jobs]


async def job_exists(conn: Connection, job_id: UUID, *, tenant_id: UUID | None = None) -> bool:
    """Whether there is such a job, or one in that tenant."""
    return bool(await read_jobs(conn, [job_id], tenant_id=tenant_id, whole=False))


async def list_attempts(
    conn: Queryable,
    job_id: UUID,
    *,
    tenant_id: UUID | None = None,
    after: int | None = None,
    limit: int | None = None,
) -> list[Mapping[str, Any]]:
    """The attempts of a job, oldest first; with `limit`, one page of them."""
    later = None if after is None else {"gt": min(after, _LAST_ATTEMPT)}
    where: JobRunWhereInput = page_filter(tenant_id=tenant_id, job_id=job_id, attempt_no=later)
    rows = await prisma_on(conn).jobrun.find_many(limit, where=where, order={"attemptNo": "asc"})
    return [_attempt(row) for row in rows]


async def queue_depth(conn: Queryable) -> list[QueueDepth]:
    """Active jobs by type and status, the largest counts. Counts only what is active, so history does not slow it."""
    rows = await conn.fetch(DEPTH.sql, *DEPTH.bind({"max_depths": MAX_DEPTHS}))
    return from_rows(QueueDepth, rows)


async def count_due(conn: Queryable, job_types: Sequence[str]) -> int:
    """How many jobs of these types could be claimed now, counted up to a million."""
    return int(await conn.fetchval(COUNT_DUE.sql, *COUNT_DUE.bind({"job_types": list(job_types)})))


def _job_row(row: Any) -> JobRow:
    values: dict[str, Any] = {"input": {}, "output": {}, **row}
    for name in _DOCUMENTS:
        if isinstance(values[name], str):
            values[name] = read_stored(values[name])
    if values["next_retry_at"] is not None and values["next_retry_at"].year == FOREVER:
        values["next_retry_at"] = None
    return JobRow(**values)


def _attempt(row: "models.JobRun") -> dict[str, Any]:
    attempt = {name: getattr(row, prisma_name(name)) for name in _OF_ATTEMPT}
    return attempt | {"host_id": None if row.hostId is None else UUID(row.hostId)}
