"""Routes for pauses of tenants, job types, definitions, workflows, hosts and triggers."""

from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter

from atlas.api.access.roles import MANAGERS, READERS
from atlas.api.http.etags import IfMatch, IsNew
from atlas.api.models.common import Body, Id, Name, Number, Text
from atlas.api.paging import Cursor, Limit, page_of, read_cursor
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.jobs.switches.gate import MAX_TIME, unblock_gate
from atlas.engine.jobs.switches.pauses import list_pauses, pause, resume, wait_until_paused
from atlas.models import Page
from atlas.models.system import Pause, PauseKind

router = APIRouter(prefix=f"{PREFIX}/pauses", route_class=GuardedRoute, tags=["system"])

POSITION: TypeAdapter[tuple[datetime, UUID]] = TypeAdapter(tuple[AwareDatetime, UUID])


class PauseBody(Body):
    """What to pause, why, and for how long."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"kind": "type", "target": "EMAIL_SEND", "reason": "provider outage", "for_seconds": 7200}]
        }
    )

    kind: PauseKind = Field(description="What to pause.")
    target: Name = Field(description="Its key, or the slug, name, label or id of a tenant, host or trigger.")
    reason: Text | None = None
    for_seconds: Annotated[Number, Field(gt=0, le=MAX_TIME.total_seconds())] | None = Field(
        default=None, description="Seconds after which the pause ends."
    )


@router.get("", operation_id="list_pauses", summary="List what is paused, oldest first")
@requires(*READERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[Pause]:
    """A tenant sees its own pauses, and those that hold everyone's jobs."""
    after = read_cursor(cursor, POSITION)
    async with call.transaction(read_only=True) as conn:
        pauses = await list_pauses(conn, tenant_id=call.tenant_id)
    return await page_of(pauses, after, limit, key=_position)


@router.put("", operation_id="pause", summary="Pause a tenant, type, definition, workflow, host or trigger")
@requires(*MANAGERS, etag=True)
async def pause_target(body: PauseBody, call: Calling, if_match: IfMatch, is_new: IsNew) -> Pause:
    """After the response nothing of it starts until it is resumed. Running jobs go on, and jobs can be enqueued.

    The response comes when every worker has confirmed that, after two seconds at the latest: `workers` and `confirmed`
    count them. Types and definitions are paused by operators. Pausing it again changes the reason and the end:
    `If-Match` changes the pause of that version alone, and `If-None-Match: *` none.
    """
    until = None if body.for_seconds is None else timedelta(seconds=body.for_seconds)
    await _unblock(call)
    async with call.transaction() as conn:
        paused = await pause(
            conn,
            body.kind,
            body.target,
            actor=call.actor,
            tenant_id=call.tenant_id,
            reason=body.reason,
            until=until,
            if_match=if_match,
            is_new=is_new,
        )
    async with call.connection() as conn:
        return await wait_until_paused(conn, call.tagged(paused))


@router.delete("/{pause_id:uuid}", operation_id="resume", status_code=204, summary="End a pause")
@requires(*MANAGERS)
async def remove(pause_id: Id, call: Calling, if_match: IfMatch) -> None:
    """What it held starts again, in its order. With `If-Match`, only if the pause is still that version."""
    await _unblock(call)
    async with call.transaction() as conn:
        await resume(conn, pause_id, actor=call.actor, tenant_id=call.tenant_id, if_match=if_match)


async def _unblock(call: RequestContext) -> None:
    """Not in the transaction of the pause, which may be refused."""
    async with call.connection() as conn:
        await unblock_gate(conn, actor=call.actor)


def _position(pause: Pause) -> tuple[datetime, UUID]:
    return pause.since, pause.id
