"""Route for what happened to jobs in each minute or hour."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from atlas.api.models.common import Timestamp
from atlas.api.request_context import Calling
from atlas.api.roles import JOB_READERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.client.models import ApiModel
from atlas.engine.series import MOST_TYPES, SeriesQuery, read_series

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["jobs"])


class FlowShown(ApiModel):
    """What happened to jobs in some time, and quantiles of the times of those that ended in it, in seconds."""

    enqueued: int = Field(description="Jobs that were enqueued.")
    finished: int = Field(description="Jobs that ended, however they did.")
    succeeded: int = Field(description="Jobs that succeeded.")
    failed: int = Field(description="Jobs that failed by a permanent error.")
    dead_lettered: int = Field(description="Jobs that failed after their last retry, or were lost three times.")
    retried: int = Field(description="Attempts that failed and are tried again.")
    canceled: int = Field(description="Jobs that were canceled.")
    wait_p50: float | None = Field(description="Half of the jobs waited no longer to start after they were due.")
    wait_p95: float | None = Field(description="Of 100 jobs, 95 waited no longer.")
    run_p50: float | None = Field(description="Half of the attempts ran no longer.")
    run_p95: float | None = Field(description="Of 100 attempts, 95 ran no longer.")


class PointShown(FlowShown):
    """One minute or hour."""

    at: datetime = Field(description="Its beginning, in UTC.")
    is_complete: bool = Field(description="False while more of it may come: the newest steps are metered last.")


class TypeSeriesShown(ApiModel):
    """The steps of a job type, or of all types together, and their sum."""

    job_type: str | None
    total: FlowShown
    points: list[PointShown] = Field(description="Every step, the oldest first.")


class SeriesShown(ApiModel):
    """What happened to jobs, step by step."""

    step: Literal["minute", "hour"]
    start: datetime
    end: datetime
    metered_until: datetime | None = Field(description="What was committed before this time is in it.")
    series: list[TypeSeriesShown] = Field(description="One of all types together, or one of each.")


@router.get("/jobs/series", operation_id="list_job_series", summary="What happened to jobs in each minute or hour")
@requires(*JOB_READERS)
async def show_series(
    call: Calling,
    step: Annotated[
        Literal["minute", "hour"],
        Query(description="Minutes are kept for 3 days, hours for 400. A response has 750 of them at most."),
    ] = "minute",
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    job_type: Annotated[str | None, Query(max_length=200)] = None,
    by_type: Annotated[
        bool, Query(description=f"A series for each of the {MOST_TYPES} busiest job types instead of one of all.")
    ] = False,
) -> SeriesShown:
    """The last hour by default, of hours the last day. An operator who names no tenant sees all of them together.

    What happens appears within seconds; `metered_until` says how far it is. A transaction that commits late is added to
    the minute in which its change was made.
    """
    wanted = SeriesQuery(call.tenant_id, step, start, end, job_type, by_type)
    async with call.transaction(read_only=True) as conn:
        return SeriesShown.model_validate(await read_series(conn, wanted))
