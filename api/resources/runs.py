"""Routes for runs of workflows."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, Field, TypeAdapter

from atlas.api.models.common import Body, Document, Id, Name
from atlas.api.models.jobs import JobSource
from atlas.api.paging import Cursor, IdCursor, Limit, read_cursor, read_page
from atlas.api.request_context import Calling
from atlas.api.roles import JOB_MAKERS, MANAGERS, PEOPLE
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import LARGEST_INTEGER
from atlas.client.models import ApiModel, Page
from atlas.db.pool import Connection
from atlas.engine.workflows.events import signal_run
from atlas.engine.workflows.find_runs import RunRow, StepPosition, get_run, list_runs, list_steps
from atlas.engine.workflows.run_actions import cancel_run, fork_run, retry_run
from atlas.errors import NotFound

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["runs"])

RunStatus = Literal["queued", "waiting", "running", "succeeded", "failed", "canceled"]
Workflow = Annotated[str | None, Query(max_length=200)]
Position = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
STEP_POSITION: TypeAdapter[StepPosition] = TypeAdapter(tuple[AwareDatetime, str, Position])


StoredStatus = Literal["queued", "running", "succeeded", "failed", "canceled"]
StepKind = Literal["step", "job", "child", "sleep", "event", "approval", "value", "failure", "undo"]
StepStatus = Literal["waiting", "retrying", "succeeded", "failed"]


class RunId(ApiModel):
    """The id of the intent, and of the run that it becomes."""

    id: UUID


class RunShown(ApiModel):
    """A run, in its present state. `waiting`: it sleeps until a time, or waits for an event."""

    id: UUID
    tenant_id: UUID
    workflow: str
    version: int
    status: RunStatus
    requested_by: str
    parent_run_id: UUID | None
    forked_from: UUID | None
    created_at: datetime
    input: Document
    output: Document
    error: Document
    attempt_count: int
    claimed_by: str | None
    correlation_id: str | None
    source: JobSource
    source_ref: str | None
    wakes_at: datetime | None
    cancel_requested_at: datetime | None
    finished_at: datetime | None


class StepShown(ApiModel):
    """A recorded step. `key` names it in its run, for a fork."""

    key: str
    branch: str
    position: int
    name: str
    kind: StepKind
    status: StepStatus
    attempts: int
    started_at: datetime
    finished_at: datetime | None
    wake_at: datetime | None
    waits_for: str | None
    child_id: UUID | None
    child_status: StoredStatus | None
    approval_id: UUID | None
    event_name: str | None
    event_match: Document | None
    input: Any
    output: Any
    error: Document | None


class Stopped(ApiModel):
    """`canceled` at once, `requested` of the worker that executes it, or `rejected` before it became a run."""

    id: UUID
    verdict: Literal["canceled", "requested", "rejected"]


class ForkBody(Body):
    """The step from which on the new run executes everything itself."""

    step: Name


class SignalBody(Body):
    """An event for one run only."""

    name: Name
    context: Document = Field(default_factory=dict)


class Signaled(ApiModel):
    """The event, and whether it woke the run. A run that is not waiting yet finds the event when it waits."""

    id: UUID
    woken: int


@router.get("/runs", operation_id="list_runs", summary="List runs, newest first")
@requires(*PEOPLE)
async def show_list(
    call: Calling,
    workflow: Workflow = None,
    status: RunStatus | None = None,
    parent_run_id: Id | None = None,
    limit: Limit = 50,
    cursor: IdCursor = None,
) -> Page[RunShown]:
    """A page with large inputs and outputs ends before its limit; `next_cursor` says whether there may be more."""
    filters: dict[str, Any] = {"workflow": workflow, "status": status, "parent_run_id": parent_run_id}
    async with call.transaction(read_only=True) as conn:
        return await read_page(
            lambda before, limit: list_runs(conn, tenant_id=call.tenant_id, **filters, before=before, limit=limit),
            RunShown.model_validate,
            after=cursor,
            limit=limit,
            contents=lambda one: (one.input, one.output, one.error),
        )


@router.get("/runs/{run_id:uuid}", operation_id="get_run", summary="One run")
@requires(*PEOPLE)
async def show_one(run_id: Id, call: Calling) -> RunShown:
    """A request that is not a run yet is found as an intent."""
    async with call.transaction(read_only=True) as conn:
        return RunShown.model_validate(await _find(conn, run_id, call.tenant_id))


@router.get(
    "/runs/{run_id:uuid}/steps",
    operation_id="list_run_steps",
    summary="List the steps of a run, in the order in which they started",
)
@requires(*PEOPLE)
async def show_steps(run_id: Id, call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[StepShown]:
    """A page with large inputs and outputs ends before its limit; `next_cursor` says whether there may be more."""
    after = read_cursor(cursor, STEP_POSITION)
    async with call.transaction(read_only=True) as conn:
        await _find(conn, run_id, call.tenant_id)
        return await read_page(
            lambda after, limit: list_steps(conn, run_id, after=after, limit=limit),
            StepShown.model_validate,
            after=after,
            limit=limit,
            key=lambda one: (one.started_at, one.branch, one.position),
            contents=lambda one: (one.input, one.output, one.error, one.event_match),
        )


@router.post(
    "/runs/{run_id:uuid}/cancel",
    operation_id="cancel_run",
    summary="Stop a run and its children, or withdraw an intent",
)
@requires(*MANAGERS)
async def cancel(run_id: Id, call: Calling) -> Stopped:
    """`requested` means that its worker was asked to stop it; the run shows when it has."""
    async with call.transaction() as conn:
        verdict = await cancel_run(conn, run_id, actor=call.actor, tenant_id=call.tenant_id)
    return Stopped.model_validate({"id": run_id, "verdict": verdict})


@router.post(
    "/runs/{run_id:uuid}/retry", operation_id="retry_run", status_code=202, summary="Resume a run from where it failed"
)
@requires(*MANAGERS)
async def retry(run_id: Id, call: Calling) -> RunId:
    """Steps that succeeded are not executed again."""
    async with call.transaction() as conn:
        await retry_run(conn, run_id, actor=call.actor, tenant_id=call.tenant_id)
    return RunId(id=run_id)


@router.post(
    "/runs/{run_id:uuid}/fork",
    operation_id="fork_run",
    status_code=201,
    summary="Request a new run that reuses this one's results before a step",
)
@requires(*MANAGERS)
async def fork(run_id: Id, body: ForkBody, call: Calling) -> RunId:
    """The new run is a request like any other: policy decides about it."""
    async with call.transaction() as conn:
        return RunId(id=await fork_run(conn, run_id, body.step, actor=call.actor, tenant_id=call.tenant_id))


@router.post(
    "/runs/{run_id:uuid}/signal", operation_id="signal_run", status_code=201, summary="Send an event to one run only"
)
@requires(*JOB_MAKERS)
async def signal(run_id: Id, body: SignalBody, call: Calling) -> Signaled:
    """A run that does not wait for it yet finds it when it does."""
    async with call.transaction() as conn:
        sent = await signal_run(conn, run_id, body.name, body.context, actor=call.actor, tenant_id=call.tenant_id)
    return Signaled(id=sent.id, woken=sent.woken)


async def _find(conn: Connection, run_id: UUID, tenant_id: UUID | None) -> RunRow:
    run = await get_run(conn, run_id, tenant_id=tenant_id)
    if run is None:
        raise NotFound("run", run_id)
    return run
