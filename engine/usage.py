"""Usage: what each tenant's finished attempts took, by job type and hour, and the meter of the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from atlas.db.pool import Connection, Queryable
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch_value, statement

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import (
        SortOrder,
        UsageHourlyGroupByOutput,
        UsageHourlyScalarFieldKeys,
        UsageHourlySumAggregateInput,
        UsageHourlyWhereInput,
    )

METER = statement("engine/sql/meter_usage.sql")

METER_BATCH = 5000
# Where a row is in the order of the rows: its hour, its tenant, its job type.
UsagePosition: TypeAlias = tuple[datetime | None, UUID, str]


_SUMS: "UsageHourlySumAggregateInput" = {
    "runs": True,
    "succeeded": True,
    "failed": True,
    "timedOut": True,
    "canceled": True,
    "lost": True,
    "runSeconds": True,
    "queueSeconds": True,
    "costCents": True,
}


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
    """Add what happened to jobs to usage, counts, totals and series, each event exactly once.

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
    where: UsageHourlyWhereInput = {} if tenant_id is None else {"tenantId": str(tenant_id)}
    where["AND"] = [{"hour": {"gte": start}}] if start is not None else []
    where["AND"] += [{"hour": {"lt": end}}] if end is not None else []
    where["AND"] += [_after(*after)] if after is not None else []
    usage = prisma_on(conn).usagehourly
    if by_hour:
        rows = await usage.find_many(
            limit, where=where, order=[{"hour": "asc"}, {"tenantId": "asc"}, {"jobType": "asc"}]
        )
        return [_of_hour(row) for row in rows]
    by: list[UsageHourlyScalarFieldKeys] = ["tenantId", "jobType"]
    order: list[Mapping[UsageHourlyScalarFieldKeys, SortOrder]] = [{"tenantId": "asc"}, {"jobType": "asc"}]
    groups = await usage.group_by(by, where=where, take=limit, sum=_SUMS, order=order)
    return [_of_all_hours(group) for group in groups]


def _after(hour: datetime | None, tenant_id: UUID, job_type: str) -> "UsageHourlyWhereInput":
    """The rows that come after one, by hour, or by tenant and job type alone."""
    tenant = str(tenant_id)
    of_hour: UsageHourlyWhereInput = {
        "OR": [{"tenantId": {"gt": tenant}}, {"tenantId": tenant, "jobType": {"gt": job_type}}]
    }
    return of_hour if hour is None else {"OR": [{"hour": {"gt": hour}}, {"hour": hour, **of_hour}]}


def _of_hour(row: "models.UsageHourly") -> Usage:
    return Usage(
        tenant_id=UUID(row.tenantId),
        job_type=row.jobType,
        hour=row.hour,
        runs=row.runs,
        succeeded=row.succeeded,
        failed=row.failed,
        timed_out=row.timedOut,
        canceled=row.canceled,
        lost=row.lost,
        run_seconds=row.runSeconds,
        queue_seconds=row.queueSeconds,
        cost_cents=row.costCents,
    )


def _of_all_hours(group: "UsageHourlyGroupByOutput") -> Usage:
    sums = group["_sum"]
    return Usage(
        tenant_id=UUID(group["tenantId"]),
        job_type=group["jobType"],
        hour=None,
        runs=sums["runs"],
        succeeded=sums["succeeded"],
        failed=sums["failed"],
        timed_out=sums["timedOut"],
        canceled=sums["canceled"],
        lost=sums["lost"],
        run_seconds=sums["runSeconds"],
        queue_seconds=sums["queueSeconds"],
        cost_cents=sums["costCents"],
    )
