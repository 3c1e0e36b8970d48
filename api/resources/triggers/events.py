"""Routes for events: publish one, which wakes waiting runs and fires triggers, and look at those that came."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter

from atlas.api.access.roles import JOB_MAKERS, READERS
from atlas.api.models.common import Body, Document, Id, Name, Timestamp
from atlas.api.paging import Cursor, Limit, list_page, read_cursor
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.find_events import EventPosition, EventQuery, find_event, list_events
from atlas.models import Page
from atlas.models.workflows import EventPublished, EventRecord

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["events"])

POSITION: TypeAdapter[EventPosition] = TypeAdapter(tuple[AwareDatetime, Id])
Text = Annotated[str | None, Query(min_length=1, max_length=200)]


class NewEvent(Body):
    """Something that happened."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "invoice.paid", "context": {"invoice": 4711, "amount_cents": 1290}}]}
    )

    name: Name
    context: Document = Field(default_factory=dict)
    correlation_id: Name | None = None


@router.get("/events", operation_id="list_events", summary="List the events, newest first")
@requires(*READERS, replica=True)
async def show_list(
    call: Calling,
    name: Annotated[
        str | None, Query(min_length=1, max_length=200, description="A name, or all that begin alike: `invoice.*`.")
    ] = None,
    created_by: Text = None,
    correlation_id: Text = None,
    run_id: Id | None = None,
    since: Timestamp | None = None,
    until: Timestamp | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[EventRecord]:
    """Those that the tenant's retention keeps; the audit log has them all, without what they held."""
    query = EventQuery(call.tenant_id, name, created_by, correlation_id, run_id, since, until)
    return await list_page(
        call,
        list_events,
        read_cursor(cursor, POSITION),
        limit,
        key=lambda event: (event.created_at, event.id),
        contents=lambda event: event.context,
        query=query,
    )


@router.get("/events/{event_id:uuid}", operation_id="get_event", summary="One event")
@requires(*READERS)
async def show_one(event_id: Id, call: Calling) -> EventRecord:
    """With what it holds."""
    async with call.transaction(read_only=True) as conn:
        return await find_event(conn, event_id, tenant_id=call.tenant_id)


@router.post("/events", operation_id="publish_event", status_code=201, summary="Publish an event")
@requires(*JOB_MAKERS)
async def publish(body: NewEvent, call: Calling) -> EventPublished:
    """It wakes the runs that wait for it and fires the triggers on its name, each once."""
    async with call.transaction() as conn:
        published = await publish_event(
            conn, call.home, body.name, body.context, actor=call.actor, correlation_id=body.correlation_id
        )
    return EventPublished(id=published.id, woken=published.woken)
