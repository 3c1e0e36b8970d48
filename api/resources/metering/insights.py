"""Routes for insights: usage, outcomes, times and cost over hours and days, as JSON and as CSV."""

from collections.abc import AsyncGenerator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from atlas.api.access.roles import READERS
from atlas.api.http.export import Export
from atlas.api.models.common import Timestamp
from atlas.api.replica.reads import read_on
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.metering.insights import InsightsQuery, read_insights
from atlas.engine.metering.insights_csv import csv_lines, csv_name
from atlas.engine.metering.step_times import StepTimesQuery, read_step_times
from atlas.models.insights import Insights, StepTimes

router = APIRouter(prefix=f"{PREFIX}/insights", route_class=GuardedRoute, tags=["usage"])


async def _read_query(
    call: Calling,
    start: Annotated[
        Timestamp | None, Query(description="From this time on; a week before the end if not given.")
    ] = None,
    end: Annotated[Timestamp | None, Query(description="Up to this time, now at the latest.")] = None,
    step: Annotated[
        Literal["minute", "hour", "day"] | None,
        Query(
            description="By the length of the time if not given. Minutes are kept for 3 days, hours for 400, days"
            " for 1,100; a response has 750 of them at most. Hours and days are those of UTC."
        ),
    ] = None,
    job_type: Annotated[str | None, Query(max_length=200)] = None,
    by: Annotated[
        Literal["all", "type", "tenant"], Query(description="What is compared: job types, tenants, or nothing.")
    ] = "type",
) -> InsightsQuery:
    """What both addresses take."""
    return InsightsQuery(call.tenant_id, start, end, step, job_type, by, call.api.settings.atlas_currency)


InsightsFilter = Annotated[InsightsQuery, Depends(_read_query)]


@router.get("", operation_id="get_insights", summary="Usage, outcomes, times and cost over hours and days")
@requires(*READERS, replica=True)
async def show_insights(call: Calling, query: InsightsFilter) -> Insights:
    """Sums, with those of the time before, each step, and the 100 busiest job types or tenants.

    An operator who names no tenant sees all of them. What happens appears within seconds.
    """
    async with call.transaction(read_only=True) as conn:
        return await read_insights(conn, query)


@router.get("/steps", operation_id="get_step_times", summary="The steps of workflows that took the most time")
@requires(*READERS, replica=True)
async def show_step_times(
    call: Calling,
    start: Annotated[
        Timestamp | None, Query(description="Runs that began from this time on; a week before the end if not given.")
    ] = None,
    end: Annotated[Timestamp | None, Query(description="Runs that began before this time; now if not given.")] = None,
    workflow: Annotated[str | None, Query(max_length=200, description="Only steps of this workflow.")] = None,
    job_type: Annotated[str | None, Query(max_length=200, description="Only steps that ran jobs of this type.")] = None,
) -> StepTimes:
    """Median, 95th percentile and share of the total, of the steps that have finished. At most 31 days.

    It is computed from the newest 5,000 of these runs; `is_sampled` says whether there were more.
    """
    query = StepTimesQuery(call.tenant_id, start, end, workflow, job_type)
    async with call.transaction(read_only=True) as conn:
        return await read_step_times(conn, query)


@router.get(
    "/export",
    operation_id="export_insights",
    response_model=None,
    summary="The same as CSV: a row for each step, and for each job type or tenant in it",
    responses={
        200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "A header, then a row a line."}
    },
)
@requires(*READERS, own_pages=True, replica=True)
async def export_insights(request: Request, call: Calling, query: InsightsFilter) -> Response:
    """Steps in which nothing happened have no row. Text that a spreadsheet would run as a formula begins with `'`."""
    name = await csv_name(lambda: read_on(call), query)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if request.method == "HEAD":
        return Response(headers=headers, media_type="text/csv")
    lines = _lines(call, query)
    # The first line before the response begins, so that a refusal still has its own status.
    first = await anext(lines)
    return Export(first, lines, headers, media_type="text/csv")


async def _lines(call: RequestContext, query: InsightsQuery) -> AsyncGenerator[bytes, None]:
    with call.api.exports.taken(call.caller.share):
        async for line in csv_lines(lambda: read_on(call), query):
            yield line
