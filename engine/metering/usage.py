"""Usage: what each tenant's finished attempts took, by job type and hour, and the meter of the audit log."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from atlas.db.pool import Connection, Queryable
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch_value, statement
from atlas.models.rows import from_row, from_rows
from atlas.models.system import Usage

if TYPE_CHECKING:
    from atlas.generated.types import (
        SortOrder,
        UsageHourlyScalarFieldKeys,
        UsageHourlySumAggregateInput,
        UsageHourlyWhereInput,
    )

METER = statement("engine/metering/sql/meter_usage.sql")

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

    With `after` and `limit`, one page of these rows.
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
        return from_rows(Usage, rows)
    by: list[UsageHourlyScalarFieldKeys] = ["tenantId", "jobType"]
    order: list[Mapping[UsageHourlyScalarFieldKeys, SortOrder]] = [{"tenantId": "asc"}, {"jobType": "asc"}]
    groups = await usage.group_by(by, where=where, take=limit, sum=_SUMS, order=order)
    return [from_row(Usage, {"hour": None, **group, **group["_sum"]}) for group in groups]


def _after(hour: datetime | None, tenant_id: UUID, job_type: str) -> "UsageHourlyWhereInput":
    """The rows that come after one, by hour, or by tenant and job type alone."""
    tenant = str(tenant_id)
    of_hour: UsageHourlyWhereInput = {
        "OR": [{"tenantId": {"gt": tenant}}, {"tenantId": tenant, "jobType": {"gt": job_type}}]
    }
    return of_hour if hour is None else {"OR": [{"hour": {"gt": hour}}, {"hour": hour, **of_hour}]}
