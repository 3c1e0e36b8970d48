"""The route to publish an event. It wakes runs that wait for it and fires triggers on its name."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from atlas.api.idempotency import IdempotencyKey, create_once
from atlas.api.models.common import Body, Document, Name
from atlas.api.request_context import Calling
from atlas.api.roles import JOB_MAKERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.client.models import ApiModel
from atlas.db.pool import Connection
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


class EventPublished(ApiModel):
    """An event that is stored, and how many waiting runs it woke."""

    id: UUID
    woken: int


@router.post("/events", status_code=201, summary="Publish an event", response_model=EventPublished)
@requires(*JOB_MAKERS)
async def publish(request: Request, body: NewEvent, call: Calling, idempotency_key: IdempotencyKey = None) -> Response:
    async def work(conn: Connection) -> dict[str, Any]:
        published = await publish_event(
            conn, call.home, body.name, body.context, actor=call.actor, correlation_id=body.correlation_id
        )
        return {"id": published.id, "woken": published.woken}

    return await create_once(request, call, idempotency_key, work)
