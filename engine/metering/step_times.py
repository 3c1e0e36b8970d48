"""Step times: which steps of workflows take the most time, over a day or a week.

Nothing is written for it when a step finishes: the steps of the newest runs are read where they are recorded.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.metering.series import read_state
from atlas.errors import FieldError, InvalidInput
from atlas.ids import first_id
from atlas.models.insights import StepTime, StepTimes
from atlas.models.rows import from_rows

STEP_TIMES = statement("engine/metering/sql/step_times.sql")

DEFAULT_DAYS = 7
MAX_DAYS = 31
# Bounds what one request reads.
MAX_RUNS = 5000
MAX_SEARCHED = 50_000
MAX_STEPS = 100_000
MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class StepTimesQuery:
    """The steps of runs that began in a time: of a tenant or of all, of one workflow, or that ran jobs of one type."""

    tenant_id: UUID | None = None
    start: datetime | None = None
    end: datetime | None = None
    workflow: str | None = None
    job_type: str | None = None


async def read_step_times(conn: Connection, query: StepTimesQuery) -> StepTimes:
    """The 100 steps that took the most time in all, with their median, their 95th percentile and their share of it."""
    end = query.end or (await read_state(conn)).now
    start = query.start or end - timedelta(days=DEFAULT_DAYS)
    if start >= end:
        raise InvalidInput("The time", [FieldError("query.start", "is not before the end")])
    if end - start > timedelta(days=MAX_DAYS):
        raise InvalidInput("The time", [FieldError("query.start", f"is more than {MAX_DAYS} days before the end")])
    rows = await fetch(
        conn,
        STEP_TIMES,
        tenant_id=query.tenant_id,
        first=first_id(start),
        last=first_id(end),
        workflow=query.workflow,
        job_type=query.job_type,
        max_searched=MAX_SEARCHED,
        max_runs=MAX_RUNS,
        max_steps=MAX_STEPS,
        max_shown=MAX_SHOWN,
    )
    runs, is_sampled = (rows[0]["runs"], rows[0]["is_sampled"]) if rows else (0, False)
    return StepTimes(start=start, end=end, runs=runs, is_sampled=is_sampled, items=from_rows(StepTime, rows))
