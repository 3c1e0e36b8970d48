"""Routes for runs of workflows."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, Field, TypeAdapter

from atlas.api.access.roles import JOB_MAKERS, MANAGERS, PEOPLE
from atlas.api.models.common import Body, Document, Id, Name
from atlas.api.newest_window import read_in_window
from atlas.api.paging import Cursor, IdCursor, Limit, list_page, read_cursor, read_page
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import MAX_INTEGER
from atlas.db.pool import Connection
from atlas.engine.workflows.events import signal_run
from atlas.engine.workflows.explain import explain_run
from atlas.engine.workflows.find_runs import StepPosition, get_run, list_runs, list_steps, summarize_runs
from atlas.engine.workflows.find_workflows import workflow_of_run
from atlas.engine.workflows.run_actions import cancel_run, fork_run, retry_run
from atlas.errors import NotFound
from atlas.models import Listed, Page
from atlas.models.explain import RunExplanation
from atlas.models.workflows import (
    ListedStep,
    RunCounts,
    RunId,
    RunStatus,
    RunStep,
    Signaled,
    Stopped,
    Workflow,
    WorkflowRun,
)

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["runs"])

WorkflowKey = Annotated[str | None, Query(max_length=200)]
StepKey = Annotated[str | None, Query(max_length=1000, description="The one step of this key.")]
Position = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
S = TypeVar("S", bound=ListedStep)
STEP_POSITION: TypeAdapter[StepPosition] = TypeAdapter(tuple[AwareDatetime, str, Position])


class ForkBody(Body):
    """The step from which on the new run executes everything itself."""

    step: Name


class SignalBody(Body):
    """An event for one run only."""

    name: Name
    context: Document = Field(default_factory=dict)


@router.get("/runs", operation_id="list_runs", summary="List runs, newest first")
@requires(*PEOPLE, replica=True)
async def show_list(
    call: Calling,
    workflow: WorkflowKey = None,
    status: RunStatus | None = None,
    parent_run_id: Id | None = None,
    limit: Limit = 50,
    cursor: IdCursor = None,
) -> Page[WorkflowRun]:
    """A page with large inputs and outputs ends before its limit; `next_cursor` says whether there may be more."""
    filters: dict[str, Any] = {"workflow": workflow, "status": status, "parent_run_id": parent_run_id}
    contents = attrgetter("input", "output", "error")
    return await list_page(call, list_runs, cursor, limit, contents=contents, tenant_id=call.tenant_id, **filters)


@router.get("/runs/summary", operation_id="summarize_runs", summary="Count the newest runs by workflow and version")
@requires(*PEOPLE, replica=True)
async def summarize(call: Calling) -> Listed[RunCounts]:
    """Of the newest 1,000 runs. A version that none of them is of is not in the list; those in code have version 0."""
    async with call.transaction(read_only=True) as conn:
        counts = await summarize_runs(conn, tenant_id=call.tenant_id)
    return Listed(items=counts)


@router.get("/runs/{run_id:uuid}", operation_id="get_run", summary="One run")
@requires(*PEOPLE)
async def show_one(run_id: Id, call: Calling) -> WorkflowRun:
    """A request that is not a run yet is found as an intent."""
    async with call.transaction(read_only=True) as conn:
        return await _find(conn, run_id, call.tenant_id)


@router.get(
    "/runs/{run_id:uuid}/steps",
    operation_id="list_run_steps",
    summary="List the steps of a run, in the order in which they started",
)
@requires(*PEOPLE)
async def show_steps(
    run_id: Id, call: Calling, key: StepKey = None, limit: Limit = 50, cursor: Cursor = None
) -> Page[RunStep]:
    """A page with large inputs and outputs ends before its limit; `next_cursor` says whether there may be more."""
    return await _read_steps(
        call,
        run_id,
        RunStep,
        key=key,
        limit=limit,
        cursor=cursor,
        contents=lambda run: (run.input, run.output, run.error, run.event_match),
    )


@router.get(
    "/runs/{run_id:uuid}/steps/brief",
    operation_id="list_run_steps_briefly",
    summary="List the steps of a run without inputs and outputs",
)
@requires(*PEOPLE)
async def show_brief_steps(run_id: Id, call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[ListedStep]:
    """The same list for graphs and tables: of an error it has the beginning of the message and the type."""
    return await _read_steps(call, run_id, ListedStep, limit=limit, cursor=cursor)


async def _read_steps(
    call: RequestContext,
    run_id: UUID,
    model: type[S],
    *,
    key: str | None = None,
    limit: int,
    cursor: str | None,
    contents: Callable[[RunStep], Any] | None = None,
) -> Page[S]:
    """A page of steps; whole ones if it is said what their `contents` are."""
    after = read_cursor(cursor, STEP_POSITION)
    async with call.transaction(read_only=True) as conn:
        await _find(conn, run_id, call.tenant_id)
        read = partial(list_steps, conn, run_id, key=key, whole=contents is not None)
        position = attrgetter("started_at", "branch", "position")
        return await read_page(read, after, limit, show=model.model_validate, key=position, contents=contents)


@router.get(
    "/runs/{run_id:uuid}/workflow",
    operation_id="get_run_workflow",
    summary="The workflow of a run, in the version that it keeps",
)
@requires(*PEOPLE)
async def show_workflow(run_id: Id, call: Calling) -> Workflow:
    """Newer versions of a declared workflow leave its runs alone. One in code is as its workers published it last."""
    async with call.transaction(read_only=True) as conn:
        await _find(conn, run_id, call.tenant_id)
        return await workflow_of_run(conn, run_id)


@router.get(
    "/runs/{run_id:uuid}/explain",
    operation_id="explain_run",
    summary="Say in one sentence why a run does not continue",
)
@requires(*PEOPLE)
async def show_explanation(run_id: Id, call: Calling) -> RunExplanation:
    """What it waits for and until when, or what holds it or its request, and the way out."""
    read = partial(explain_run, run_id=run_id, tenant_id=call.tenant_id)
    return await read_in_window(call, lambda conn, window: read(conn, window=window))


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
    return Stopped(id=run_id, verdict=verdict)


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


async def _find(conn: Connection, run_id: UUID, tenant_id: UUID | None) -> WorkflowRun:
    run = await get_run(conn, run_id, tenant_id=tenant_id)
    if run is None:
        raise NotFound("run", run_id)
    return run
