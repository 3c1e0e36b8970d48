"""The overview of a tenant, or of the installation: counts, busy types, the latest failures, what needs attention.

Every read is bounded, so that an overview takes some milliseconds however many jobs there are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from atlas.audit.sealing.seal_status import seal_status
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, statement
from atlas.engine.jobs.lists.counts import Transaction, update_counts
from atlas.engine.jobs.lists.job_list import JobFilter, list_ended
from atlas.engine.jobs.lists.newest_active import NewestActive, find_newest_active
from atlas.engine.jobs.lists.summary import summarize
from atlas.engine.jobs.switches.gate import read_gate
from atlas.engine.metering.attention import find_attention
from atlas.engine.metering.flow import flow_of
from atlas.engine.metering.series import SeriesQuery, read_series
from atlas.models.overview import FailedJob, Overview, TenantActivity, TypeActivity
from atlas.models.rows import from_rows

TYPE_DEPTH = statement("engine/jobs/sql/type_depth.sql")
TYPE_DEPTH_OF_TENANT = statement("engine/jobs/sql/type_depth_of_tenant.sql")
SERVED_TYPES = statement("engine/metering/sql/served_types.sql")
TENANTS = statement("engine/metering/sql/tenants_overview.sql")

MAX_TYPES = 10
MAX_FAILURES = 10
# Of each type in the installation, and of a tenant's queue: a longer one is shown as longer.
MAX_OF_TYPE = 2_000
MAX_OF_QUEUE = 5_000
# Failed and canceled jobs, to find the latest failures among them.
MAX_READ = 2_000
# Of each tenant's queue, where tenants are compared.
MAX_OF_TENANT = 500
RATE_MINUTES = 5
RECENT_MINUTES = 15

# Where a tenant is in the order of tenants: its active jobs and its id.
TenantPosition: TypeAlias = tuple[int, UUID]


async def read_overview(
    read: Transaction, read_all: Transaction, write: Transaction | None, *, tenant_id: UUID | None = None
) -> Overview:
    """The overview of one tenant, or of all. The transactions are those of `summarize`."""
    summary = await summarize(read, read_all, write, tenant_id=tenant_id)
    if write is not None and summary.counts["dead_letter"]:
        await update_counts(write)
    async with read_all() as conn:
        seal = await seal_status(conn, tenant_id=tenant_id)
        newest = await find_newest_active(conn)
    async with read() as conn:
        gate = await read_gate(conn)
        types = await _types(conn, tenant_id, newest)
        failures = await _latest_failures(conn, tenant_id)
        attention = await find_attention(
            conn,
            tenant_id=tenant_id,
            seal=seal,
            dead_letters=summary.counts["dead_letter"],
            unserved=_unserved(types) if gate.online else [],
        )
    return Overview(
        gate=gate,
        counts=summary.counts,
        estimated=summary.estimated,
        oldest_queued_seconds=summary.oldest_queued_seconds,
        workers=attention.workers,
        seal=seal,
        types=types[:MAX_TYPES],
        failures=failures,
        needs=attention.needs,
    )


async def _latest_failures(conn: Connection, tenant_id: UUID | None) -> list[FailedJob]:
    """The jobs of a tenant, or of all, that failed last, dead letters among them."""
    failed = JobFilter(tenant_id, ("failed", "dead_letter"))
    jobs = (await list_ended(conn, failed, limit=MAX_FAILURES, max_examined=MAX_READ, whole=False)).jobs
    tenants = await prisma_on(conn).tenant.find_many(where={"id": {"in": list({str(job.tenant_id) for job in jobs})}})
    slugs = {UUID(tenant.id): tenant.slug for tenant in tenants}
    return [
        FailedJob(
            id=job.id,
            tenant_id=job.tenant_id,
            tenant=slugs.get(job.tenant_id),
            job_type=job.job_type,
            is_dead_letter=job.dead_lettered_at is not None,
            finished_at=job.finished_at,
            attempt_count=job.attempt_count,
            error_type=job.error.get("type"),
            error=job.error.get("message"),
        )
        for job in jobs
        if job.finished_at is not None
    ]


async def read_tenants(
    conn: Connection, *, after: TenantPosition | None = None, limit: int = 50
) -> list[TenantActivity]:
    """A page of the tenants, those with the most active jobs first."""
    active, id = after or (None, None)
    newest = await find_newest_active(conn)
    bounds: dict[str, Any] = {"before_active": active, "before_id": id, "limit": limit, "most": MAX_OF_TENANT}
    times = {"minutes": RATE_MINUTES, "recent_minutes": RECENT_MINUTES}
    rows = await fetch(conn, TENANTS, **bounds, **times, reads_queues=newest is None)
    tenants = from_rows(TenantActivity, rows)
    return tenants if newest is None else [_with_newest(tenant, newest.of_tenant(tenant.id)) for tenant in tenants]


def _with_newest(tenant: TenantActivity, newest: NewestActive) -> TenantActivity:
    """The tenant with its queue as of the newest jobs; what is not among them is due, or was when it was counted."""
    counts = newest.counts
    missing = tenant.active - sum(counts.values())
    queue = {
        "queued": counts["queued"] + max(0, missing),
        "waiting": counts["waiting"],
        "running": counts["running"],
        "is_partial": missing != 0,
        "oldest_due_at": newest.oldest.since if newest.oldest else None,
    }
    return tenant.model_copy(update=queue)


async def _types(conn: Connection, tenant_id: UUID | None, newest: NewestActive | None) -> list[TypeActivity]:
    """The types of the last hour and those with due or running jobs, the busiest first, then the longest queues."""
    depths: Sequence[Mapping[str, Any]]
    if newest is not None:
        depths = _depths(newest.of_tenant(tenant_id))
    elif tenant_id is None:
        depths = await fetch(conn, TYPE_DEPTH, most=MAX_OF_TYPE)
    else:
        depths = await fetch(conn, TYPE_DEPTH_OF_TENANT, tenant_id=tenant_id, most=MAX_OF_QUEUE)
    series = await read_series(conn, SeriesQuery(tenant_id, by_type=True, with_points=False))
    flows = {type_series.job_type: type_series.total for type_series in series.series}
    served = {row["job_type"] for row in await fetch(conn, SERVED_TYPES)}
    now = {row["job_type"]: row for row in depths}
    activities = []
    for job_type in [*flows, *(name for name in now if name not in flows)]:
        row = now.get(job_type, {"queued": 0, "running": 0, "is_partial": False})
        activities.append(
            TypeActivity(
                job_type=job_type or "",
                queued=row["queued"],
                running=row["running"],
                is_partial=row["is_partial"],
                is_served=job_type in served,
                last_hour=flows.get(job_type) or flow_of([], []),
            )
        )
    return sorted(activities, key=_rank, reverse=True)


def _depths(newest: NewestActive) -> list[dict[str, Any]]:
    """By type, as `type_depth.sql` has them."""
    return [{"job_type": key, "is_partial": True, **newest.of_type(key).counts} for key in newest.job_types]


def _rank(activity: TypeActivity) -> tuple[int, int]:
    flow = activity.last_hour
    return flow.enqueued + flow.finished, activity.queued + activity.running


def _unserved(types: Sequence[TypeActivity]) -> list[tuple[str, int]]:
    """Types whose due jobs nothing takes. Workers over HTTP publish no types: what runs or has ended is served."""
    return [
        (activity.job_type, activity.queued)
        for activity in types
        if activity.queued and not (activity.is_served or activity.running or activity.last_hour.finished)
    ]
