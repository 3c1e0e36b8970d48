"""Events: what happened elsewhere, told once. They wake runs that wait for them and fire triggers on their name."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from api.calls import Calling
from api.door import PREFIX, Door, allows
from api.models.common import Body, Document, Name, Shown
from api.repeats import IdempotencyKey, create_once
from api.roles import JOB_MAKERS
from atlas.pool import Connection
from audit import Event, record
from engine.workflows.events import publish_event

router = APIRouter(prefix=PREFIX, route_class=Door, tags=["events"])


class NewEvent(Body):
    """Something that happened."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "invoice.paid", "context": {"invoice": 4711, "amount_cents": 1290}}]}
    )

    name: Name
    context: Document = Field(default_factory=dict)
    correlation_id: Name | None = None


class Published(Shown):
    """An event that is stored, and how many waiting runs it woke."""

    id: UUID
    woken: int


@router.post("/events", status_code=201, summary="Publish an event", response_model=Published)
@allows(*JOB_MAKERS)
async def publish(request: Request, body: NewEvent, call: Calling, idempotency_key: IdempotencyKey = None) -> Response:
    async def work(conn: Connection) -> dict[str, Any]:
        told = await publish_event(
            conn, call.home, body.name, body.context, actor=call.actor, correlation_id=body.correlation_id
        )
        meta = {"name": body.name, "woken": told.woken}
        await record(conn, Event("EVENT_PUBLISHED", "event", str(told.id), call.actor, call.home, meta=meta))
        return {"id": told.id, "woken": told.woken}

    return await create_once(request, call, idempotency_key, work)
