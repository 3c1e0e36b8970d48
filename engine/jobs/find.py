"""Reads jobs: one, a page of a list, the attempts of one, and how many there are by type and status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from atlas.bounds import LARGEST_PAGE
from atlas.db.pg_json import read_stored
from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.errors import FieldError, InvalidInput

GET = statement("engine/jobs/sql/get.sql")
LIST = statement("engine/jobs/sql/list.sql")
ATTEMPTS = statement("engine/jobs/sql/attempts.sql")
DEPTH = statement("engine/jobs/sql/depth.sql")
COUNT_DUE = statement("engine/jobs/sql/count_due.sql")

# The most rows about types and statuses; callers may invent types.
MOST_DEPTHS = 200
STATUSES = ("queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled")


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it is read. `status` is the stored one; `shown_status` also the derived `waiting` and `dead_letter`."""

    id: UUID
    tenant_id: UUID
    status: str
    shown_status: str
    job_type: str
    definition_id: UUID | None
    priority: int
    input: dict[str, Any]
    output: dict[str, Any]
    error: dict[str, Any]
    cost_cents: int
    retry_count: int
    max_retries: int
    next_retry_at: datetime | None
    # When it is due, or was due the last time; None for a job that never waited.
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


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list: every field that is set must match."""

    tenant_id: UUID | None = None
    status: str | None = None
    job_type: str | None = None
    source: str | None = None
    correlation_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


async def get_job(conn: Queryable, job_id: UUID, *, tenant_id: UUID | None = None) -> JobRow | None:
    """One job, or None if there is none, or none in that tenant."""
    row = await conn.fetchrow(GET.sql, *GET.bind({"job_id": job_id, "tenant_id": tenant_id}))
    return None if row is None else _job(row)


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, and whether there may be more after them."""

    jobs: list[JobRow]
    goes_on: bool


async def list_jobs(
    conn: Queryable,
    wanted: JobFilter | None = None,
    *,
    before: UUID | None = None,
    limit: int = 50,
    offset: int = 0,
) -> list[JobRow]:
    """Newest first, after the job `before` of the page before: stable while new jobs arrive, unlike an `offset`."""
    return (await list_page(conn, wanted, before=before, limit=limit, offset=offset)).jobs


async def list_page(
    conn: Queryable,
    wanted: JobFilter | None = None,
    *,
    before: UUID | None = None,
    limit: int = 50,
    offset: int = 0,
    most_bytes: int | None = None,
) -> JobPage:
    """The same, as a page that ends early after the job with which its inputs and outputs reach `most_bytes`."""
    chosen = wanted or JobFilter()
    if chosen.status is not None and chosen.status not in STATUSES:
        raise InvalidInput("The filter", [FieldError("status", f"is not one of {', '.join(STATUSES)}")])
    limit = min(limit, LARGEST_PAGE)
    values = {
        "tenant_id": chosen.tenant_id,
        "status": chosen.status,
        "job_type": chosen.job_type,
        "source": chosen.source,
        "correlation_id": chosen.correlation_id,
        "created_after": chosen.created_after,
        "created_before": chosen.created_before,
        "before": before,
        "limit": limit,
        "offset": offset,
        "most_bytes": most_bytes,
    }
    rows = await conn.fetch(LIST.sql, *LIST.bind(values))
    goes_on = bool(rows) and (len(rows) == limit or len(rows) < rows[0]["page_size"])
    return JobPage([_job(row) for row in rows], goes_on)


async def list_attempts(
    conn: Queryable,
    job_id: UUID,
    *,
    tenant_id: UUID | None = None,
    after: int | None = None,
    limit: int | None = None,
) -> list[Mapping[str, Any]]:
    """Every attempt of a job, oldest first; or so many of them after an attempt's number."""
    values = {"job_id": job_id, "tenant_id": tenant_id, "after": after, "limit": limit}
    rows = await conn.fetch(ATTEMPTS.sql, *ATTEMPTS.bind(values))
    return [{**row, "result": read_stored(row["result"])} for row in rows]


@dataclass(frozen=True, slots=True)
class Depth:
    """How many active jobs of a type are in a state, and how long the oldest has waited, in seconds."""

    job_type: str
    status: Literal["queued", "waiting", "running"]
    count: int
    oldest_seconds: float | None


async def queue_depth(conn: Queryable, *, tenant_id: UUID | None = None) -> list[Depth]:
    """Active jobs by type and status, the largest counts. Counts only what is active, so history does not slow it."""
    rows = await conn.fetch(DEPTH.sql, *DEPTH.bind({"tenant_id": tenant_id, "most": MOST_DEPTHS}))
    return [Depth(row["job_type"], row["status"], row["count"], row["oldest_seconds"]) for row in rows]


async def count_due(conn: Queryable, job_types: Sequence[str], *, most: int = 1_000_000) -> int:
    """How many jobs of these types could be claimed now, counted up to `most`."""
    return int(await conn.fetchval(COUNT_DUE.sql, *COUNT_DUE.bind({"job_types": list(job_types), "most": most})))


def _job(row: Mapping[str, Any]) -> JobRow:
    values = dict(row)
    values.pop("page_size", None)
    for name in ("input", "output", "error", "progress"):
        values[name] = None if values[name] is None else read_stored(values[name])
    return JobRow(**values)
