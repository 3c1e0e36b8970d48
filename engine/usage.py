"""Usage: what each tenant's finished attempts took, by job type and hour, and the meter of the audit log."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch_value, statement

METER = statement("engine/sql/meter_usage.sql")
READ = statement("engine/sql/read_usage.sql")

METER_BATCH = 5000
# Where a row is in the order of the rows: its hour, its tenant, its job type.
UsagePosition: TypeAlias = tuple[datetime | None, UUID, str]


@dataclass(frozen=True, slots=True)
class Usage:
    """Finished attempts. Queue seconds run from when a job was due to the start."""

    tenant_id: UUID
    job_type: str
    # The beginning of the hour, in UTC; None for the sum of several.
    hour: datetime | None
    runs: int
    succeeded: int
    failed: int
    timed_out: int
    canceled: int
    lost: int
    run_seconds: float
    queue_seconds: float
    cost_cents: int


async def meter_usage(conn: Connection, *, limit: int = METER_BATCH) -> bool | None:
    """Add what happened to jobs to usage, counts and totals, each event exactly once.

    Returns True if there may be more, None if another meter is at work.
    """
    more: bool | None = await fetch_value(conn, METER, limit=limit)
    return more


async def read_usage(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    by_hour: bool = False,
    after: UsagePosition | None = None,
    limit: int | None = None,
) -> list[Usage]:
    """Usage from `start` up to, not including, `end`: a row a tenant and job type, or one an hour of each.

    With `after` and `limit`, so many of these rows after one.
    """
    hour, tenant, job_type = after or (None, None, None)
    values: dict[str, Any] = {"tenant_id": tenant_id, "start": start, "end": end, "by_hour": by_hour, "limit": limit}
    values |= {"after_hour": hour, "after_tenant": tenant, "after_type": job_type}
    return [Usage(**row) for row in await conn.fetch(READ.sql, *READ.bind(values))]
