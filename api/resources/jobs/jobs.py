"""Routes to enqueue, list and count jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError
from starlette.responses import Response

from atlas.api.access.roles import JOB_MAKERS, JOB_READERS
from atlas.api.enqueue_batcher import AcceptedJob, EnqueueBatcher, is_plain, make
from atlas.api.field_errors import fields_of
from atlas.api.http.headers import header
from atlas.api.limits.batches import ROWS, breathe, chunks
from atlas.api.models.job_filter import read_job_filter
from atlas.api.models.jobs import MAX_JOBS, NewJobBody, Start, job_of, listed_job_of, start_of
from atlas.api.newest_window import read_in_window
from atlas.api.paging import MAX_PAGE_BYTES, Cursor, Limit, read_cursor, write_cursor
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, RouteRules, json_bytes, json_response, read_body, requires, rules_of
from atlas.bounds import MAX_VALUES
from atlas.db.pool import Connection
from atlas.engine.admission import admitted
from atlas.engine.jobs.lists.job_list import EndedPage, JobFilter, JobPage, list_ended, list_page
from atlas.engine.jobs.lists.summary import summarize
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.workflows.intents import NewIntent, request_workflows
from atlas.errors import FieldError, InvalidInput, NotFound
from atlas.models.base import SearchedPage
from atlas.models.jobs import EnqueuedJob, Job, JobSummary, ListedJob
from atlas.tracing import given_traceparent

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["jobs"])

FARTHEST_OFFSET = 10_000

JobFilters = Annotated[JobFilter, Depends(read_job_filter)]
Order = Annotated[
    Literal["created", "ended"],
    Query(description="`ended` lists dead letters, failed and canceled jobs by finish time, newest first."),
]
Offset = Annotated[
    int,
    Query(
        ge=0,
        le=FARTHEST_OFFSET,
        description="A cursor is stable while jobs arrive; this is not. Behind a filter a page passes over 4,000 jobs "
        "at most, and is then empty: its `next_cursor` skips the rest.",
    ),
]
OFFSET_POSITION: TypeAdapter[tuple[UUID, int]] = TypeAdapter(
    tuple[UUID, Annotated[int, Field(ge=0, le=FARTHEST_OFFSET)]]
)
ENDED_POSITION: TypeAdapter[tuple[datetime, UUID]] = TypeAdapter(tuple[AwareDatetime, UUID])
T = TypeVar("T")

_ONE = TypeAdapter(NewJobBody)
_MANY = TypeAdapter(list[NewJobBody])


@router.post(
    "/jobs",
    operation_id="enqueue_jobs",
    status_code=201,
    response_model=EnqueuedJob | list[EnqueuedJob],
    summary="Enqueue one job, or a list of jobs, all or none",
)
@requires(*JOB_MAKERS, body_limit=4 * 1024 * 1024, max_nodes=MAX_VALUES, raw=True)
async def create(request: Request) -> Response:
    """A response of 201 means that the job is committed.

    With an `Idempotency-Key`, a repeated call gets the first response; the same key with another body is 409.
    A job of type ENGINE_RUN (`payload: {"workflow", "input"}`) is a request for a workflow, which policy decides about.
    """
    call: RequestContext = request.scope["atlas.call"]
    value = await read_body(request, CREATE_RULES)
    if isinstance(value, list):
        return await _create_batch(request, call, value)
    [job] = await _admit(request, call, [_body(value)])
    if not call.is_joined and isinstance(job, NewJob) and is_plain(job):
        batcher: EnqueueBatcher = request.app.state.enqueue_batcher
        enqueued = await batcher.enqueue(call, job)
        request.scope["atlas.facts"] = {"job_id": str(enqueued.id)}
        return json_response(json_bytes(enqueued), 201)
    async with call.transaction() as conn:
        created = await make_starts(conn, call, [job], call.home)
    return json_response(json_bytes(created[0]), 201)


async def _create_batch(request: Request, call: RequestContext, values: list[Any]) -> Response:
    if len(values) > MAX_JOBS:
        raise InvalidInput("The list", [FieldError("", f"contains more than {MAX_JOBS:,} jobs")])
    if not values:
        raise InvalidInput("The list", [FieldError("", "is empty")])
    request.scope["atlas.limits"][-1].charge(len(values))
    async with call.api.batch_slots.taken(call.caller.share, len(values)):
        bodies = await _batch_bodies(values)
        jobs: list[Start] = []
        for _, part in chunks(bodies):
            jobs += await _admit(request, call, part)
            await breathe()
        async with call.transaction() as conn:
            created = await make_starts(conn, call, jobs, call.home)
    return json_response(json_bytes(created), 201)


CREATE_RULES: RouteRules = rules_of(create)


@router.get("/jobs", operation_id="list_jobs", summary="List jobs, newest first")
@requires(*JOB_READERS, replica=True)
async def show_list(
    call: Calling,
    filters: JobFilters,
    order: Order = "created",
    limit: Limit = 50,
    cursor: Cursor = None,
    offset: Offset = 0,
) -> SearchedPage[Job]:
    """A page with large payloads and outputs ends before its limit; `next_cursor` says whether there is more.

    A page compares the newest 1,000 jobs of its statuses with what no index has, such as a type, a worker, a time or an
    error, and may then be empty: `searched_back_to` says how far it looked, and `next_cursor` goes on from there. Ids,
    correlation ids and parent runs are found immediately.
    """
    page = await _read_list(call, filters, order, limit, cursor, offset, whole=True)
    return _searched_page(page, [job_of(job) for job in page.jobs])


@router.get("/jobs/brief", operation_id="list_jobs_briefly", summary="List jobs without payloads and outputs")
@requires(*JOB_READERS, replica=True)
async def show_brief_list(
    call: Calling,
    filters: JobFilters,
    order: Order = "created",
    limit: Limit = 50,
    cursor: Cursor = None,
    offset: Offset = 0,
) -> SearchedPage[ListedJob]:
    """The same list for tables: of an error it has the beginning of the message and the type."""
    page = await _read_list(call, filters, order, limit, cursor, offset, whole=False)
    return _searched_page(page, [listed_job_of(job) for job in page.jobs])


async def _read_list(
    call: RequestContext, filters: JobFilter, order: str, limit: int, cursor: str | None, offset: int, *, whole: bool
) -> JobPage | EndedPage:
    if order == "ended":
        if offset:
            raise InvalidInput("The request", [FieldError("query.offset", "cannot be combined with order=ended")])
        before = read_cursor(cursor, ENDED_POSITION)
        async with call.transaction(read_only=True) as conn:
            return await list_ended(conn, filters, before=before, limit=limit, whole=whole)
    before_id, offset = _read_position(cursor, offset)
    bounds: dict[str, Any] = {"limit": limit, "offset": offset, "max_bytes": MAX_PAGE_BYTES, "whole": whole}
    if not filters.has_active:
        async with call.transaction(read_only=True) as conn:
            return await list_page(conn, filters, before=before_id, **bounds)
    return await read_in_window(
        call,
        lambda conn, window: list_page(conn, filters, before=before_id, window=window, **bounds),
        before=before_id,
    )


def _searched_page(page: JobPage | EndedPage, items: list[T]) -> SearchedPage[T]:
    position: Any = page.next_before
    if isinstance(page, JobPage) and page.next_offset is not None:
        position = (page.next_before, page.next_offset)
    next_cursor = None if position is None else write_cursor(position)
    return SearchedPage(items=items, next_cursor=next_cursor, searched_back_to=page.searched_back_to)


def _read_position(cursor: str | None, offset: int) -> tuple[UUID | None, int]:
    """Where a page begins, and how many jobs it skips there: those that its cursor says are left, or the offset."""
    try:
        return None if cursor is None else UUID(cursor), offset
    except ValueError:
        return read_cursor(cursor, OFFSET_POSITION) or (None, offset)


@router.get(
    "/jobs/summary", operation_id="summarize_jobs", summary="Counts by status, the oldest that waits, and rates"
)
@requires(*JOB_READERS, replica=True)
async def show_summary(call: Calling) -> JobSummary:
    """Of the caller's tenant; an operator who names none counts all."""
    return await summarize(*call.summary_transactions(), tenant_id=call.tenant_id)


def _body(value: Any) -> NewJobBody:
    try:
        return _ONE.validate_python(value)
    except ValidationError as error:
        problems = fields_of(error.errors(include_input=False, include_url=False), NewJobBody, value)
        raise InvalidInput("The job", problems) from None


async def _batch_bodies(values: list[Any]) -> list[NewJobBody]:
    bodies: list[NewJobBody] = []
    errors: list[Any] = []
    for start, part in chunks(values):
        try:
            bodies += _MANY.validate_python(part)
        except ValidationError as error:
            for problem in error.errors(include_input=False, include_url=False):
                nth, *rest = problem["loc"]
                errors.append({**problem, "loc": (int(nth) + start, *rest)})
        await breathe()
    if errors:
        raise InvalidInput("The job", fields_of(errors, NewJobBody, values))
    return bodies


async def _admit(request: Request, call: RequestContext, bodies: Sequence[NewJobBody]) -> list[Start]:
    """The starts as they may be enqueued; raises the reason why one may not be."""
    correlation_id = header(request.scope, b"x-correlation-id")
    if correlation_id is None:
        correlation_id = given_traceparent(header(request.scope, b"traceparent"))
    batcher: EnqueueBatcher = request.app.state.enqueue_batcher
    starts: list[Start] = []
    for body in bodies:
        start = start_of(body, call.home, correlation_id)
        if isinstance(start, NewJob):
            start = admitted(start, await batcher.admission(call, start.job_type, start.tenant_id))
            if body.definition_key and start.definition_id is None:
                raise NotFound("definition", body.definition_key)
        starts.append(start)
    return starts


async def make_starts(
    conn: Connection, call: RequestContext, starts: Sequence[Start], tenant_id: UUID
) -> list[AcceptedJob]:
    """Enqueue admitted jobs, and request workflows for a tenant, all or none."""
    jobs = [start for start in starts if isinstance(start, NewJob)]
    intents = [start for start in starts if isinstance(start, NewIntent)]
    rows: list[AcceptedJob] = []
    slots = call.api.batch_slots
    while len(rows) < len(jobs):
        if len(jobs) > ROWS:
            await slots.give_way()
        rows += await make(conn, jobs[len(rows) : len(rows) + slots.write_size()], call.actor)
    created = iter(rows)
    if intents:
        await request_workflows(conn, tenant_id, intents, requested_by=call.actor)
    now: Any = await conn.fetchval("select clock_timestamp()") if intents else None
    return [
        next(created)
        if isinstance(start, NewJob)
        else AcceptedJob(start.id, tenant_id, "queued", "ENGINE_RUN", None, now, deduplicated=False)
        for start in starts
    ]
