"""Series: what happened to jobs in each minute, hour or day, by tenant and type, with quantiles of their times.

The meter of the audit log adds to them, so that enqueue, claim and finish do nothing for it. Times are counted in the
buckets of `duration_bounds`: steps and types can be added up, and a quantile is exact to a part of its bucket.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias
from uuid import UUID

from atlas.db.pool import BATCH_SECONDS, Connection, Pool, borrow
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.metering.flow import flow_of, sums
from atlas.errors import FieldError, InvalidInput
from atlas.models.overview import Point, Series, TypeSeries

READ = statement("engine/metering/sql/series.sql")
STATE = statement("engine/metering/sql/series_state.sql")
PRUNE = statement("engine/metering/sql/prune_series.sql")

# Hours and days are those of UTC.
Step: TypeAlias = Literal["minute", "hour", "day"]
By: TypeAlias = Literal["all", "type", "tenant"]
STEPS: Mapping[Step, timedelta] = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}
KEPT_DAYS: Mapping[Step, int] = {"minute": 3, "hour": 400, "day": 1100}
# Up to now, where no beginning is asked for.
DEFAULT_STEPS: Mapping[Step, int] = {"minute": 60, "hour": 24, "day": 30}
# Three days of minutes are more than a screen shows; a month of hours and two years of days are not.
MAX_POINTS = 750
MAX_TYPES = 10
PRUNE_BATCH = 5000


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """Which series to read: of a tenant or of all, of one type, of all types together, or of each of the busiest."""

    tenant_id: UUID | None = None
    step: Step = "minute"
    start: datetime | None = None
    end: datetime | None = None
    job_type: str | None = None
    by_type: bool = False
    # False: the sums alone.
    with_points: bool = True


@dataclass(frozen=True, slots=True)
class SeriesState:
    """The database's time, how far the meter has read the audit log, and the bounds of the buckets of times."""

    now: datetime
    metered_until: datetime | None
    bounds: Sequence[float]


async def read_series(conn: Connection, query: SeriesQuery) -> Series:
    """The series, without gaps, up to the step that has begun; never older than they are kept."""
    state = await read_state(conn)
    start, end = bounds_of(query.step, query.start, query.end, state.now)
    by: By = "type" if query.by_type else "all"
    sums = await read_sums(conn, query, start, end, by=by, most=MAX_TYPES)
    if not query.by_type:
        sums.setdefault("", [])
    series = [
        TypeSeries(
            job_type=job_type or query.job_type,
            total=flow_of(rows, state.bounds),
            points=points_of(rows, query.step, start, end, state) if query.with_points else [],
        )
        for job_type, rows in sums.items()
    ]
    return Series(step=query.step, start=start, end=end, metered_until=state.metered_until, series=series)


async def read_state(conn: Connection) -> SeriesState:
    """What is needed to read series."""
    row = await fetch_row(conn, STATE)
    assert row is not None
    return SeriesState(**row)


async def read_sums(
    conn: Connection, query: SeriesQuery, start: datetime, end: datetime, *, by: By, most: int | None
) -> dict[str, list[Any]]:
    """The sums of steps, or of all of them, of each type or tenant, the busiest first; of all together under ''."""
    rows = await fetch(
        conn,
        READ,
        tenant_id=query.tenant_id,
        step=query.step,
        start=start,
        end=end,
        job_type=query.job_type,
        by=by,
        with_points=query.with_points,
        most=most,
    )
    sums: dict[str, list[Any]] = {}
    for row in rows:
        sums.setdefault(row["name"], []).append(row)
    return sums


async def prune_series(pool: Pool) -> AsyncIterator[int]:
    """Remove steps that are past their age, one transaction a batch: how many. The caller may wait between batches."""
    removed = PRUNE_BATCH
    while removed >= PRUNE_BATCH:
        async with borrow(pool, within=BATCH_SECONDS) as conn:
            ages = {"steps": list(KEPT_DAYS), "days": list(KEPT_DAYS.values())}
            removed = len(await fetch(conn, PRUNE, **ages, limit=PRUNE_BATCH))
        yield removed


def bounds_of(step: Step, start: datetime | None, end: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """From the step of the beginning up to the end, now at the latest."""
    length = STEPS[step]
    end = min(end or now, now)
    start = start or _floor(end, step) - (DEFAULT_STEPS[step] - 1) * length
    if start >= end:
        raise InvalidInput("The request", [FieldError("query.start", "is not before the end, or in the future")])
    start = max(_floor(start, step), _floor(now, step) - timedelta(days=KEPT_DAYS[step]))
    if (end - start) / length > MAX_POINTS:
        longer = {"minute": ", or step=hour", "hour": ", or step=day", "day": ""}[step]
        raise InvalidInput(
            "The request",
            [FieldError("query.start", f"is more than {MAX_POINTS} {step}s before the end")],
            remedy=f"Choose a shorter time{longer}.",
        )
    return start, max(end, start)


def _floor(time: datetime, step: Step) -> datetime:
    whole = time.astimezone(UTC).replace(second=0, microsecond=0)
    match step:
        case "minute":
            return whole
        case "hour":
            return whole.replace(minute=0)
        case "day":
            return whole.replace(hour=0, minute=0)


def steps_between(step: Step, start: datetime, end: datetime) -> Iterator[datetime]:
    """The beginnings of the steps."""
    while start < end:
        yield start
        start += STEPS[step]


def points_of(rows: Sequence[Any], step: Step, start: datetime, end: datetime, state: SeriesState) -> list[Point]:
    """Every step, with the sums of those that have some."""
    by_time = {row["begins_at"]: row for row in rows}
    metered = state.metered_until
    empty = sums([], state.bounds)
    return [
        Point(
            at=at,
            is_complete=metered is not None and at + STEPS[step] <= metered,
            **(sums([by_time[at]], state.bounds) if at in by_time else empty),
        )
        for at in steps_between(step, start, end)
    ]
