"""The overview of a tenant, or of the installation: counts, busy types, the latest failures, what needs a person.

Every read is bounded, so that an overview takes some milliseconds however many jobs there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from atlas.audit.seal_status import SealStatus, seal_status
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.jobs.counts import Transaction
from atlas.engine.jobs.gate import read_gate
from atlas.engine.jobs.newest_active import NewestActive, find_newest_active
from atlas.engine.jobs.summary import Summary, summarize
from atlas.engine.metering.attention import Need, find_attention
from atlas.engine.metering.flow import Flow
from atlas.engine.metering.series import SeriesQuery, read_series
from atlas.models.overview import FailedJob
from atlas.models.rows import from_rows
from atlas.models.system import Gate

TYPE_DEPTH = statement("engine/jobs/sql/type_depth.sql")
TYPE_DEPTH_OF_TENANT = statement("engine/jobs/sql/type_depth_of_tenant.sql")
SERVED_TYPES = statement("engine/metering/sql/served_types.sql")
FAILURES = statement("engine/jobs/sql/latest_failures.sql")
TENANTS = statement("engine/metering/sql/tenants_overview.sql")

MOST_TYPES = 10
MOST_FAILURES = 10
# Of each type in the installation, and of a tenant's queue: a longer one is shown as longer.
MOST_OF_TYPE = 2_000
MOST_OF_QUEUE = 5_000
# Failed and canceled jobs of a tenant, to find its latest failures among them.
MOST_READ = 2_000
# Of each tenant's queue, where tenants are compared.
MOST_OF_TENANT = 500
RATE_MINUTES = 5
RECENT_MINUTES = 15

# Where a tenant is in the order of tenants: its active jobs and its id.
TenantPosition: TypeAlias = tuple[int, UUID]


@dataclass(frozen=True, slots=True)
class TypeActivity:
    """A job type: what is due and runs now, and what happened in the last hour. A partial queue is longer than that."""

    job_type: str
    queued: int
    running: int
    is_partial: bool
    is_served: bool
    last_hour: Flow


@dataclass(frozen=True, slots=True)
class Overview:
    """What an operator or a tenant looks at first."""

    gate: Gate
    summary: Summary
    workers: int
    seal: SealStatus
    types: list[TypeActivity]
    failures: list[FailedJob]
    needs: list[Need]


@dataclass(frozen=True, slots=True)
class TenantActivity:
    """One of several tenants: its queue now, its rates, and how the jobs of the last 15 minutes ended.

    Where `is_partial` is true, `queued` and `waiting` are estimates, and `oldest_due_at` is of its oldest jobs.
    """

    id: UUID
    slug: str
    name: str
    active: int
    queued: int
    waiting: int
    running: int
    dead_letters: int
    is_partial: bool
    oldest_due_at: datetime | None
    enqueued_per_minute: float
    finished_per_minute: float
    finished: int
    failed: int


async def read_overview(
    read: Transaction, read_all: Transaction, write: Transaction | None, *, tenant_id: UUID | None = None
) -> Overview:
    """The overview of one tenant, or of all. The transactions are those of `summarize`."""
    summary = await summarize(read, read_all, write, tenant_id=tenant_id)
    async with read_all() as conn:
        seal = await seal_status(conn, tenant_id=tenant_id)
        newest = await find_newest_active(conn)
    async with read() as conn:
        gate = await read_gate(conn)
        types = await _types(conn, tenant_id, newest)
        limits = {"most_read": MOST_READ, "limit": MOST_FAILURES}
        failures = from_rows(FailedJob, await fetch(conn, FAILURES, tenant_id=tenant_id, **limits))
        attention = await find_attention(
            conn,
            tenant_id=tenant_id,
            seal=seal,
            dead_letters=summary.counts["dead_letter"],
            unserved=_unserved(types) if gate.online else [],
        )
    return Overview(gate, summary, attention.workers, seal, types[:MOST_TYPES], failures, attention.needs)


async def read_tenants(
    conn: Connection, *, before: TenantPosition | None = None, limit: int = 50
) -> list[TenantActivity]:
    """Tenants side by side, those with the most active jobs first; so many of them after one."""
    active, id = before or (None, None)
    newest = await find_newest_active(conn)
    bounds: dict[str, Any] = {"before_active": active, "before_id": id, "limit": limit, "most": MOST_OF_TENANT}
    times = {"minutes": RATE_MINUTES, "recent_minutes": RECENT_MINUTES}
    rows = await fetch(conn, TENANTS, **bounds, **times, reads_queues=newest is None)
    tenants = [TenantActivity(**row) for row in rows]
    return tenants if newest is None else [_with_newest(tenant, newest.of_tenant(tenant.id)) for tenant in tenants]


def _with_newest(tenant: TenantActivity, newest: NewestActive) -> TenantActivity:
    """The tenant with its queue as of the newest jobs; what is not among them is due, or was when it was counted."""
    counts = newest.counts
    missing = tenant.active - sum(counts.values())
    return replace(
        tenant,
        queued=counts["queued"] + max(0, missing),
        waiting=counts["waiting"],
        running=counts["running"],
        is_partial=missing != 0,
        oldest_due_at=newest.oldest.since if newest.oldest else None,
    )


async def _types(conn: Connection, tenant_id: UUID | None, newest: NewestActive | None) -> list[TypeActivity]:
    """The types of the last hour and those with due or running jobs, the busiest first, then the longest queues."""
    depths: Sequence[Mapping[str, Any]]
    if newest is not None:
        depths = _depths(newest.of_tenant(tenant_id))
    elif tenant_id is None:
        depths = await fetch(conn, TYPE_DEPTH, most=MOST_OF_TYPE)
    else:
        depths = await fetch(conn, TYPE_DEPTH_OF_TENANT, tenant_id=tenant_id, most=MOST_OF_QUEUE)
    series = await read_series(conn, SeriesQuery(tenant_id, by_type=True, with_points=False))
    flows = {one.job_type: one.total for one in series.series}
    served = {row["job_type"] for row in await fetch(conn, SERVED_TYPES)}
    now = {row["job_type"]: row for row in depths}
    found = []
    for job_type in [*flows, *(name for name in now if name not in flows)]:
        row = now.get(job_type, {"queued": 0, "running": 0, "is_partial": False})
        depth = (row["queued"], row["running"], row["is_partial"])
        found.append(TypeActivity(job_type or "", *depth, job_type in served, flows.get(job_type) or Flow()))
    return sorted(found, key=_rank, reverse=True)


def _depths(newest: NewestActive) -> list[dict[str, Any]]:
    """By type, as `type_depth.sql` has them."""
    return [{"job_type": key, "is_partial": True, **newest.of_type(key).counts} for key in newest.job_types]


def _rank(one: TypeActivity) -> tuple[int, int]:
    return one.last_hour.enqueued + one.last_hour.finished, one.queued + one.running


def _unserved(types: Sequence[TypeActivity]) -> list[tuple[str, int]]:
    """Types whose due jobs nothing takes. Workers over HTTP publish no types: what runs or has ended is served."""
    return [
        (one.job_type, one.queued)
        for one in types
        if one.queued and not (one.is_served or one.running or one.last_hour.finished)
    ]
