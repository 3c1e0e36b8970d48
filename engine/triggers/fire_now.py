"""Firing a trigger by request, to try it or to make up for a missed time. Like enqueueing, it is never paused."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row
from atlas.engine.helper_process import Run, run_here
from atlas.engine.triggers.find import CLOCK, find_trigger
from atlas.engine.triggers.fire import Firing, fire_one, render_input
from atlas.engine.triggers.fire_events import StoredEvent
from atlas.engine.triggers.fire_schedules import schedule_scope
from atlas.ids import new_id


async def fire_now(
    conn: Connection,
    trigger_id: UUID,
    *,
    actor: Actor,
    context: Mapping[str, Any] | None = None,
    tenant_id: UUID | None = None,
    run: Run = run_here,
) -> UUID:
    """Fire a trigger once, whatever its schedule. Returns the id of the job or intent it started.

    `context` takes the role of an event's context. The schedule stays as it is, and no dedupe window applies. Filling
    in its template takes up to a second; `run` may do it elsewhere.
    """
    async with conn.transaction():
        trigger = await find_trigger(conn, trigger_id, tenant_id=tenant_id)
        row = await fetch_row(conn, CLOCK, tenant_id=trigger.tenant_id)
        assert row is not None
        firing = Firing(trigger, "manual")
        if trigger.trigger_type == "schedule":
            await render_input(firing, schedule_scope(trigger, row["now"]), run=run)
        else:
            name = (trigger.event_name or "").replace("*", "manual")
            event = StoredEvent(new_id(), trigger.tenant_id, name, dict(context or {}), None, row["now"])
            await render_input(firing, event.scope, run=run)
        return await fire_one(conn, firing, now=row["now"], actor=actor)
