"""The route to publish an event. It wakes runs that wait for it and fires triggers on its name."""

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from atlas.api.models.common import Body, Document, Name
from atlas.api.request_context import Calling
from atlas.api.roles import JOB_MAKERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.client.models.workflows import EventPublished
from atlas.engine.workflows.events import publish_event

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["events"])


class NewEvent(Body):
    """Something that happened."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "invoice.paid", "context": {"invoice": 4711, "amount_cents": 1290}}]}
    )

    name: Name
    context: Document = Field(default_factory=dict)
    correlation_id: Name | None = None


@router.post("/events", operation_id="publish_event", status_code=201, summary="Publish an event")
@requires(*JOB_MAKERS)
async def publish(body: NewEvent, call: Calling) -> EventPublished:
    """It wakes the runs that wait for it and fires the triggers on its name, each once."""
    async with call.transaction() as conn:
        published = await publish_event(
            conn, call.home, body.name, body.context, actor=call.actor, correlation_id=body.correlation_id
        )
    return EventPublished(id=published.id, woken=published.woken)
