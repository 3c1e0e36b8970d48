"""Routes for triggers, which start work at a time or after an event."""

from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter

from atlas.api.access.roles import MANAGERS, READERS
from atlas.api.http.etags import IfMatch
from atlas.api.models.common import Body, Document, Flag, Id, Name, Timestamp, Whole
from atlas.api.paging import Cursor, IdCursor, Limit, list_page, read_cursor, read_page
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.triggers.cron import Cron, read_cron
from atlas.engine.triggers.explain import explain_trigger
from atlas.engine.triggers.find import cron_of, find_trigger, list_fires, list_triggers
from atlas.engine.triggers.fire_now import fire_now
from atlas.engine.triggers.preview import MAX_OCCURRENCES, preview
from atlas.engine.triggers.store import add_trigger, edit_trigger, read_clock, remove_trigger
from atlas.models import Listed, Page
from atlas.models.explain import TriggerExplanation
from atlas.models.triggers import Fire, Fired, Occurrence, Trigger

router = APIRouter(prefix=f"{PREFIX}/jobs/triggers", route_class=GuardedRoute, tags=["triggers"])

# Schedules are not computed before it.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
FIRE_POSITION: TypeAdapter[tuple[datetime, UUID]] = TypeAdapter(tuple[AwareDatetime, UUID])


class TriggerChange(Body):
    """What to change about a trigger."""

    label: Name | None = None
    trigger_type: Literal["event", "schedule"] | None = None
    is_enabled: Flag | None = None
    event_name: Name | None = None
    cron_expr: Name | None = None
    timezone: Name | None = None
    definition_key: Name | None = None
    job_type: Name | None = None
    workflow: Name | None = None
    payload_template: Document | None = None
    dedupe_window_seconds: Annotated[Whole, Field(ge=0, le=30 * 86_400)] | None = None
    misfire: Literal["skip", "latest", "all"] | None = None

    def described(self) -> dict[str, Any]:
        """The fields as the engine reads them. Null removes an optional field, and changes no required one."""
        kept = {"label", "trigger_type", "is_enabled", "payload_template", "dedupe_window_seconds", "misfire"}
        return {name: value for name, value in self.given().items() if value is not None or name not in kept}


class NewTrigger(TriggerChange):
    """A new trigger: an event's name or a cron expression, and exactly one target."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "label": "Morning report",
                    "trigger_type": "schedule",
                    "cron_expr": "0 7 * * 1-5",
                    "timezone": "Europe/Berlin",
                    "job_type": "report.build",
                    "payload_template": {"day": "{{ fire.due_at }}"},
                }
            ]
        }
    )

    label: Name
    trigger_type: Literal["event", "schedule"]


class FireBody(Body):
    """The context to use in place of the event's, for a trigger on an event."""

    context: Document = Field(default_factory=dict)


class PreviewBody(Body):
    """A schedule to preview before it is saved."""

    cron_expr: Name
    timezone: Name | None = None
    count: Annotated[Whole, Field(ge=1, le=MAX_OCCURRENCES)] = 20
    start: Timestamp | None = Field(default=None, description="From this time on; now where it is not sent.")


@router.get("", operation_id="list_triggers", summary="List the triggers, oldest first")
@requires(*READERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[Trigger]:
    """Removed triggers are not listed."""
    contents = attrgetter("payload_template", "last_error")
    return await list_page(call, list_triggers, cursor, limit, contents=contents, tenant_id=call.tenant_id)


@router.post("", operation_id="create_trigger", status_code=201, summary="Add a trigger")
@requires(*MANAGERS, helper=True, etag=True)
async def create(body: NewTrigger, call: Calling) -> Trigger:
    """A schedule's first time is the first after now; a trigger on an event sees the events after now."""
    async with call.helper() as run, call.transaction() as conn:
        trigger = await add_trigger(conn, call.home, body.described(), actor=call.actor, run=run)
    return call.tagged(trigger)


@router.post("/preview", operation_id="preview_schedule", summary="The next times of a schedule, before it is saved")
@requires(*READERS, no_key="the call changes nothing and may be repeated without one")
async def preview_schedule(body: PreviewBody, call: Calling) -> Listed[Occurrence]:
    """With a note about each time that a clock change touches."""
    async with call.transaction(read_only=True) as conn:
        zone, now = await read_clock(conn, call.home)
    cron = read_cron(body.cron_expr, body.timezone or zone)
    return await _occurrences(call, cron, _before(body.start) or now, body.count)


@router.get("/{trigger_id:uuid}", operation_id="get_trigger", summary="One trigger")
@requires(*READERS, etag=True)
async def show_one(trigger_id: Id, call: Calling) -> Trigger:
    """With the time that it is due next, and why it could not fire last."""
    async with call.transaction(read_only=True) as conn:
        trigger = await find_trigger(conn, trigger_id, tenant_id=call.tenant_id)
    return call.tagged(trigger)


@router.patch(
    "/{trigger_id:uuid}", operation_id="edit_trigger", summary="Change a trigger; a changed schedule starts from now"
)
@requires(*MANAGERS, helper=True, etag=True)
async def edit(trigger_id: Id, body: TriggerChange, call: Calling, if_match: IfMatch) -> Trigger:
    """Fields that are not sent stay as they are; null removes an optional one."""
    about: dict[str, Any] = {"actor": call.actor, "tenant_id": call.tenant_id, "if_match": if_match}
    async with call.helper() as run, call.transaction() as conn:
        changed = await edit_trigger(conn, trigger_id, body.described(), **about, run=run)
    return call.tagged(changed)


@router.delete(
    "/{trigger_id:uuid}",
    operation_id="remove_trigger",
    status_code=204,
    summary="Remove a trigger; the record of its firings stays",
)
@requires(*MANAGERS)
async def remove(trigger_id: Id, call: Calling, if_match: IfMatch) -> None:
    """It fires no more. Jobs that it has started go on."""
    async with call.transaction() as conn:
        await remove_trigger(conn, trigger_id, actor=call.actor, tenant_id=call.tenant_id, if_match=if_match)


@router.post(
    "/{trigger_id:uuid}/fire",
    operation_id="fire_trigger",
    status_code=201,
    summary="Fire a trigger now, whatever its schedule",
)
@requires(*MANAGERS, helper=True)
async def fire(trigger_id: Id, call: Calling, body: FireBody | None = None) -> Fired:
    """Beside its schedule, which goes on as before. The firing is recorded with the caller's name."""
    context = (body or FireBody()).context
    async with call.helper() as run, call.transaction() as conn:
        job_id = await fire_now(conn, trigger_id, actor=call.actor, context=context, tenant_id=call.tenant_id, run=run)
    return Fired(job_id=job_id)


@router.get(
    "/{trigger_id:uuid}/fires", operation_id="list_trigger_fires", summary="List the firings of a trigger, newest first"
)
@requires(*READERS)
async def show_fires(trigger_id: Id, call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[Fire]:
    """Also those that were swallowed within the dedupe window, those that failed, and due times that were missed."""
    after = read_cursor(cursor, FIRE_POSITION)
    async with call.transaction(read_only=True) as conn:
        await find_trigger(conn, trigger_id, tenant_id=call.tenant_id)
        read = partial(list_fires, conn, trigger_id, tenant_id=call.tenant_id)
        return await read_page(read, after, limit, key=attrgetter("fired_at", "id"))


@router.get(
    "/{trigger_id:uuid}/explain",
    operation_id="explain_trigger",
    summary="Why a trigger did not fire, in one sentence",
)
@requires(*READERS)
async def show_explanation(trigger_id: Id, call: Calling) -> TriggerExplanation:
    """Disabled, held, late, skipped, without a matching event, or when it fires next; and the way out."""
    async with call.helper() as run, call.transaction(read_only=True) as conn:
        return await explain_trigger(conn, trigger_id, tenant_id=call.tenant_id, run=run)


@router.get("/{trigger_id:uuid}/preview", operation_id="preview_trigger", summary="The next times of a schedule")
@requires(*READERS)
async def preview_trigger(
    trigger_id: Id,
    call: Calling,
    count: Annotated[int, Query(ge=1, le=MAX_OCCURRENCES)] = 20,
    start: Timestamp | None = None,
) -> Listed[Occurrence]:
    """None for a trigger on an event."""
    async with call.transaction(read_only=True) as conn:
        trigger = await find_trigger(conn, trigger_id, tenant_id=call.tenant_id)
        _, now = await read_clock(conn, trigger.tenant_id)
    if trigger.cron_expr is None:
        return Listed(items=[])
    return await _occurrences(call, cron_of(trigger), _before(start) or now, count)


def _before(start: datetime | None) -> datetime | None:
    """The last time before one: what is due at it counts."""
    return None if start is None else max(start, EARLIEST) - timedelta(microseconds=1)


async def _occurrences(call: RequestContext, cron: Cron, now: datetime, count: int) -> Listed[Occurrence]:
    async with call.helper() as run:
        times: list[Occurrence] = await run(preview, cron, now, count=count)
    return Listed(items=times)
