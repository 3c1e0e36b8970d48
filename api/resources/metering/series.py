"""Route for what happened to jobs in each minute, hour or day."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from atlas.api.access.roles import JOB_READERS
from atlas.api.models.common import Timestamp
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.metering.series import MAX_TYPES, SeriesQuery, read_series
from atlas.models.overview import Series

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["jobs"])


@router.get("/jobs/series", operation_id="list_job_series", summary="What happened to jobs in each minute, hour or day")
@requires(*JOB_READERS, replica=True)
async def show_series(
    call: Calling,
    step: Annotated[
        Literal["minute", "hour", "day"],
        Query(description="Minutes are kept for 3 days, hours for 400, days for 1,100. A response has 750 at most."),
    ] = "minute",
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    job_type: Annotated[str | None, Query(max_length=200)] = None,
    by_type: Annotated[
        bool, Query(description=f"A series for each of the {MAX_TYPES} busiest job types instead of one of all.")
    ] = False,
    with_points: Annotated[bool, Query(description="False: the sums alone, without the steps.")] = True,
) -> Series:
    """The last hour by default, of hours the last day, of days the last 30. Without a tenant, operators see all.

    What happens appears within seconds; `metered_until` says how far it is. A transaction that commits late is added to
    the minute in which its change was made.
    """
    query = SeriesQuery(call.tenant_id, step, start, end, job_type, by_type, with_points)
    async with call.transaction(read_only=True) as conn:
        return await read_series(conn, query)
