"""Insights: usage, outcomes, times and cost of jobs over hours, days and months, by job type or tenant.

All of it is read from the series that the meter keeps, never from jobs: a month of an installation takes some
milliseconds, however many jobs it ran.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.metering.flow import flow_of, sums
from atlas.engine.metering.series import (
    KEPT_DAYS,
    STEPS,
    By,
    SeriesQuery,
    SeriesState,
    Step,
    bounds_of,
    points_of,
    read_state,
    read_sums,
    steps_between,
)
from atlas.models.insights import Insights, InsightsGroup

SLUGS = statement("engine/metering/sql/slugs.sql")

DEFAULT_DAYS = 7
# The step that is chosen where none is named: the first that keeps what is asked for and is not too fine for it.
LONGEST: dict[Step, timedelta] = {"minute": timedelta(hours=6), "hour": timedelta(days=8)}
MAX_GROUPS = 100


@dataclass(frozen=True, slots=True)
class InsightsQuery:
    """What to look at: a time, a tenant or all, one job type or all, and what to compare."""

    tenant_id: UUID | None = None
    start: datetime | None = None
    end: datetime | None = None
    # None: by the length of the time.
    step: Step | None = None
    job_type: str | None = None
    by: By = "type"
    # What costs are counted in cents of.
    currency: str = "EUR"


@dataclass(frozen=True, slots=True)
class Window:
    """The steps that a query is about."""

    series: SeriesQuery
    start: datetime
    end: datetime
    state: SeriesState

    @property
    def steps(self) -> list[datetime]:
        return list(steps_between(self.series.step, self.start, self.end))


async def read_insights(conn: Connection, query: InsightsQuery) -> Insights:
    """The sums, their change against the time before, the steps, and the busiest types or tenants."""
    window = await find_window(conn, query)
    series, start, end, state = window.series, window.start, window.end, window.state
    rows = (await read_sums(conn, series, start, end, by="all", most=None)).get("", [])
    before = start - len(window.steps) * STEPS[series.step]
    whole = replace(series, with_points=False)
    is_kept = before >= state.now - timedelta(days=KEPT_DAYS[series.step])
    earlier = (await read_sums(conn, whole, before, start, by="all", most=None)).get("", []) if is_kept else []
    grouped = {} if query.by == "all" else await read_sums(conn, whole, start, end, by=query.by, most=MAX_GROUPS + 1)
    names = list(grouped)[:MAX_GROUPS]
    slugs = await slugs_of(conn, names) if query.by == "tenant" else {}
    return Insights(
        step=series.step,
        start=start,
        end=end,
        metered_until=state.metered_until,
        currency=query.currency,
        total=flow_of(rows, state.bounds),
        previous=flow_of(earlier, state.bounds) if is_kept else None,
        points=points_of(rows, series.step, start, end, state),
        groups=[
            InsightsGroup(**group_name(query.by, name, slugs), **sums(grouped[name], state.bounds)) for name in names
        ],
        is_cut=len(grouped) > MAX_GROUPS,
    )


async def find_window(conn: Connection, query: InsightsQuery) -> Window:
    """The steps from the beginning, or from a week ago, up to the end, now at the latest."""
    state = await read_state(conn)
    end = min(query.end or state.now, state.now)
    start = query.start or end - timedelta(days=DEFAULT_DAYS)
    step = query.step or _step_for(start, end, state.now)
    start, end = bounds_of(step, start, end, state.now)
    return Window(SeriesQuery(query.tenant_id, step, job_type=query.job_type), start, end, state)


async def slugs_of(conn: Connection, ids: list[str]) -> dict[str, str]:
    """The slugs of tenants, by their ids."""
    return {str(row["id"]): row["slug"] for row in await fetch(conn, SLUGS, ids=[UUID(id) for id in ids])}


def group_name(by: By, name: str, slugs: dict[str, str]) -> dict[str, Any]:
    """The fields of a group that say whose it is."""
    if by == "tenant":
        return {"job_type": None, "tenant_id": UUID(name), "tenant": slugs.get(name)}
    return {"job_type": name if by == "type" else None, "tenant_id": None, "tenant": None}


def _step_for(start: datetime, end: datetime, now: datetime) -> Step:
    for step, longest in LONGEST.items():
        if end - start <= longest and now - start <= timedelta(days=KEPT_DAYS[step]):
            return step
    return "day"
