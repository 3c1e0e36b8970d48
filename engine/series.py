"""Series: what happened to jobs in each minute or hour, by tenant and type, with quantiles of waiting and run times.

The meter of the audit log adds to them, so that enqueue, claim and finish do nothing for it. Times are counted in the
buckets of `duration_bounds`: steps and types can be added up, and a quantile is exact to a part of its bucket.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias
from uuid import UUID

from atlas.db.pool import BATCH_SECONDS, Connection, Pool, borrow
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import FieldError, InvalidInput

READ = statement("engine/sql/series.sql")
STATE = statement("engine/sql/series_state.sql")
PRUNE = statement("engine/sql/prune_series.sql")

Step: TypeAlias = Literal["minute", "hour"]
STEPS: Mapping[Step, timedelta] = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
KEPT_DAYS: Mapping[Step, int] = {"minute": 3, "hour": 400}
# Up to now, where no beginning is asked for.
DEFAULT_STEPS: Mapping[Step, int] = {"minute": 60, "hour": 24}
# Three days of minutes are more than a screen shows; a month of hours is not.
MOST_POINTS = 750
MOST_TYPES = 10
PRUNE_BATCH = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What happened to jobs in some time. Times are in seconds, None where there was none.

    They are those of jobs and attempts that ended in it: how long a job waited from when it was due to the start of its
    first attempt, and how long an attempt ran.
    """

    enqueued: int = 0
    succeeded: int = 0
    failed: int = 0
    dead_lettered: int = 0
    retried: int = 0
    canceled: int = 0
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None

    @property
    def finished(self) -> int:
        """Jobs that ended, however they did."""
        return self.succeeded + self.failed + self.dead_lettered + self.canceled


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Flow):
    """One step of a series. It is incomplete while the meter has not read the audit log to its end."""

    at: datetime
    is_complete: bool


@dataclass(frozen=True, slots=True)
class TypeSeries:
    """The steps of one job type, or of all together where `job_type` is None, and their sum."""

    job_type: str | None
    total: Flow
    points: list[Point]


@dataclass(frozen=True, slots=True)
class Series:
    """Steps from `start` up to, not including, `end`. What was committed before `metered_until` is in them."""

    step: Step
    start: datetime
    end: datetime
    metered_until: datetime | None
    series: list[TypeSeries]


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


async def read_series(conn: Connection, wanted: SeriesQuery) -> Series:
    """The series, without gaps, up to the step that has begun; never older than they are kept."""
    state = await fetch_row(conn, STATE)
    assert state is not None
    step = STEPS[wanted.step]
    start, end = _bounds(wanted, state["now"])
    rows = await fetch(
        conn,
        READ,
        tenant_id=wanted.tenant_id,
        step=wanted.step,
        start=start,
        end=end,
        job_type=wanted.job_type,
        by_type=wanted.by_type,
        with_points=wanted.with_points,
        most_types=MOST_TYPES,
    )
    found: dict[str, dict[datetime | None, Any]] = {} if wanted.by_type else {"": {}}
    for row in rows:
        found.setdefault(row["job_type"], {})[row["begins_at"]] = _flow(row, state["bounds"])
    metered = state["metered_until"]
    steps = [
        (at, metered is not None and at + step <= metered)
        for at in (_steps(start, end, step) if wanted.with_points else ())
    ]
    series = [
        TypeSeries(
            job_type or wanted.job_type,
            Flow(**flows.get(None, {})),
            [Point(at=at, is_complete=is_complete, **flows.get(at, {})) for at, is_complete in steps],
        )
        for job_type, flows in found.items()
    ]
    return Series(wanted.step, start, end, metered, series)


async def prune_series(pool: Pool, *, batch: int = PRUNE_BATCH) -> AsyncIterator[int]:
    """Remove steps that are past their age, one transaction a batch: how many. The caller may wait between batches."""
    removed = batch
    while removed >= batch:
        async with borrow(pool, within=BATCH_SECONDS) as conn:
            days = {"minutes_days": KEPT_DAYS["minute"], "hours_days": KEPT_DAYS["hour"]}
            removed = len(await fetch(conn, PRUNE, **days, limit=batch))
        yield removed


def _bounds(wanted: SeriesQuery, now: datetime) -> tuple[datetime, datetime]:
    """From the step of the beginning up to the end, now at the latest."""
    step = STEPS[wanted.step]
    end = min(wanted.end or now, now)
    start = wanted.start or _floor(end, step) - (DEFAULT_STEPS[wanted.step] - 1) * step
    if start >= end:
        raise InvalidInput("The request", [FieldError("query.start", "is not before the end, or in the future")])
    start = max(_floor(start, step), _floor(now, step) - timedelta(days=KEPT_DAYS[wanted.step]))
    if (end - start) / step > MOST_POINTS:
        raise InvalidInput(
            "The request",
            [FieldError("query.start", f"is more than {MOST_POINTS} {wanted.step}s before the end")],
            remedy="Choose a shorter time, or step=hour." if wanted.step == "minute" else "Choose a shorter time.",
        )
    return start, max(end, start)


def _floor(time: datetime, step: timedelta) -> datetime:
    whole = time.replace(second=0, microsecond=0)
    return whole if step < timedelta(hours=1) else whole.replace(minute=0)


def _steps(start: datetime, end: datetime, step: timedelta) -> Iterator[datetime]:
    while start < end:
        yield start
        start += step


def _flow(row: Mapping[str, Any], bounds: Sequence[float]) -> dict[str, Any]:
    """The fields of a flow."""
    counts = {name: row[name] for name in ("enqueued", "succeeded", "failed", "dead_lettered", "retried", "canceled")}
    return {
        **counts,
        "wait_p50": quantile(row["waits"], bounds, 0.5),
        "wait_p95": quantile(row["waits"], bounds, 0.95),
        "run_p50": quantile(row["runs"], bounds, 0.5),
        "run_p95": quantile(row["runs"], bounds, 0.95),
    }


def quantile(counts: Sequence[int | None], bounds: Sequence[float], share: float) -> float | None:
    """The time that so large a share does not exceed, in seconds; within its bucket it is interpolated.

    `counts` has a number for each bound and one for what is above the last; there the quantile is that bound.
    """
    wanted = share * sum(count or 0 for count in counts)
    before = 0
    for low, high, count in zip([0.0, *bounds], [*bounds, bounds[-1]], counts, strict=True):
        if count and before + count >= wanted:
            return round(low + (high - low) * (wanted - before) / count, 6)
        before += count or 0
    return None
