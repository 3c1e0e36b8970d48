"""Routes for intents: requests for workflows, which policy decides about."""

from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field

from atlas.api.access.roles import JOB_MAKERS, PEOPLE
from atlas.api.http.headers import header
from atlas.api.models.common import Body, Document, Id, Name, Spend, Whole
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling
from atlas.api.resources.workflows.runs import WorkflowKey
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.workflows.find_intents import list_intents
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.runnable import require_runnable
from atlas.errors import NotFound
from atlas.models import Page
from atlas.models.workflows import Intent, IntentStatus, RunId
from atlas.tracing import given_traceparent

router = APIRouter(prefix=f"{PREFIX}/intents", route_class=GuardedRoute, tags=["runs"])


class NewIntentBody(Body):
    """A request for a workflow. Policy allows it, sends it to a person, or blocks it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"workflow": "WF-010", "input": {"topic": "energy"}}]})

    workflow: Name
    input: Document = Field(default_factory=dict)
    priority: Annotated[Whole, Field(ge=-1_000_000, le=1_000_000)] = 0
    spend_cents: Spend = 0
    correlation_id: Name | None = None
    allow_unknown: bool = Field(default=False, description="Accept a workflow that is not published yet.")
    must_be_runnable: bool = Field(
        default=False,
        description="Refuse a disabled workflow and an input that does not fit its schema, instead of keeping them.",
    )


@router.post("", operation_id="request_run", status_code=201, summary="Request a workflow")
@requires(*JOB_MAKERS)
async def request_run(body: NewIntentBody, call: Calling, request: Request) -> RunId:
    """Policy allows it, sends it to a person, or blocks it. Its id is the run's."""
    async with call.transaction() as conn:
        if body.must_be_runnable:
            await require_runnable(conn, call.home, body.workflow, body.input)
        id = await request_workflow(
            conn,
            call.home,
            body.workflow,
            body.input,
            call.actor,
            priority=body.priority,
            spend_cents=body.spend_cents,
            correlation_id=body.correlation_id or given_traceparent(header(request.scope, b"traceparent")),
            allow_unknown=body.allow_unknown,
        )
    return RunId(id=id)


@router.get("", operation_id="list_intents", summary="List intents, newest first")
@requires(*PEOPLE, replica=True)
async def show_intents(
    call: Calling,
    workflow: WorkflowKey = None,
    status: IntentStatus | None = None,
    limit: Limit = 50,
    cursor: IdCursor = None,
) -> Page[Intent]:
    """A page with large inputs ends before its limit; `next_cursor` says whether there may be more."""
    filters: dict[str, Any] = {"tenant_id": call.tenant_id, "workflow": workflow, "status": status}
    return await list_page(call, list_intents, cursor, limit, contents=attrgetter("input"), **filters)


@router.get("/{intent_id:uuid}", operation_id="get_intent", summary="One intent")
@requires(*PEOPLE)
async def show_intent(intent_id: Id, call: Calling) -> Intent:
    """With what policy decided, and by which rule."""
    async with call.transaction(read_only=True) as conn:
        page = await list_intents(conn, tenant_id=call.tenant_id, id=intent_id, limit=1)
    if not page:
        raise NotFound("intent", intent_id)
    return page[0]
