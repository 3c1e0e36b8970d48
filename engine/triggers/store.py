"""Stored triggers: add, edit, remove. Each change is audited."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import as_json, data_of, prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.etags import Precondition, require_match
from atlas.engine.helper_process import Run, run_here
from atlas.engine.triggers.cron import read_cron
from atlas.engine.triggers.find import CLOCK, describe, find_row, find_trigger
from atlas.engine.triggers.read_spec import read_trigger
from atlas.engine.triggers.spec import TriggerSpec
from atlas.engine.triggers.target import check_target
from atlas.errors import no_tenant
from atlas.ids import new_id
from atlas.models.triggers import TARGETS, Trigger

STAY = statement("engine/triggers/sql/stay.sql")
EDIT = statement("engine/triggers/sql/edit.sql")
REMOVE = statement("engine/triggers/sql/remove.sql")
HOLD = statement("engine/triggers/sql/hold.sql")
FORGET_OUTAGES = statement("engine/triggers/sql/forget_outages.sql")

# Not repeated in the audit log: a template may hold anything.
_NOT_AUDITED = {"payload_template"}


async def add_trigger(
    conn: Connection,
    tenant_id: UUID,
    described: Mapping[str, Any],
    *,
    actor: Actor,
    declared_by: str | None = None,
    run: Run = run_here,
) -> Trigger:
    """Add a trigger. A schedule's first time is the first after now; an event trigger sees the events after now.

    Checking it takes up to half a second; `run` may do it elsewhere.
    """
    spec: TriggerSpec = await run(read_trigger, described)
    async with conn.transaction():
        await require_room(conn, "triggers", tenant_id)
        await check_target(conn, tenant_id, spec)
        # A concurrent change of the tenant's zone would not see a schedule that is just being added.
        await fetch(conn, STAY, tenant_id=tenant_id)
        next_fire_at = await _next_time(conn, tenant_id, spec, run)
        columns = {**spec.model_dump(), "payload_template": as_json(spec.payload_template)}
        facts = {"next_fire_at": next_fire_at, "created_by": actor.id, "declared_by": declared_by}
        data = data_of(id=new_id(), tenant_id=tenant_id, **columns, **facts)
        [trigger] = await describe(conn, [await prisma_on(conn).jobtrigger.create(data)])
        await record(conn, _event("TRIGGER_ADDED", trigger, actor))
    return trigger


async def edit_trigger(
    conn: Connection,
    trigger_id: UUID,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Precondition | None = None,
    run: Run = run_here,
) -> Trigger:
    """Change some fields of a trigger. With another schedule or event, or enabled again, it starts from now."""
    async with conn.transaction():
        # Before its row is locked: a change of the zone locks the zone, and then the rows of the schedules.
        await fetch(conn, STAY, tenant_id=UUID((await find_row(conn, trigger_id, tenant_id=tenant_id)).tenantId))
        before = await _hold(conn, trigger_id, tenant_id, if_match)
        values = await values_of(conn, "trigger", trigger_id)
        spec: TriggerSpec = await run(read_trigger, _merged(before, changes))
        changed = sorted(name for name in TriggerSpec.model_fields if getattr(spec, name) != getattr(before, name))
        # Its target may have changed since: a trigger that no longer fits can be disabled, and renamed.
        if {"payload_template", *TARGETS} & set(changed) or (spec.is_enabled and "is_enabled" in changed):
            await check_target(conn, before.tenant_id, spec)
        next_fire_at = before.first_due
        if {"cron_expr", "timezone", "trigger_type", "is_enabled"} & set(changed):
            next_fire_at = await _next_time(conn, before.tenant_id, spec, run)
        edited_by = actor.id if set(changed) - {"label"} else before.edited_by
        begins_anew = bool({"event_name", "trigger_type", "is_enabled"} & set(changed))
        facts = {"next_fire_at": next_fire_at, "edited_by": edited_by, "begins_anew": begins_anew}
        template = orjson.dumps(spec.payload_template).decode()
        await fetch(conn, EDIT, id=trigger_id, **facts, **{**spec.model_dump(), "payload_template": template})
        trigger = await find_trigger(conn, trigger_id)
        await record(conn, _event("TRIGGER_EDITED", trigger, actor, changed=changed), before=values)
    return trigger


async def remove_trigger(
    conn: Connection,
    trigger_id: UUID,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Precondition | None = None,
) -> Trigger:
    """Remove a trigger. Its jobs, and the record of its firings, stay."""
    async with conn.transaction():
        trigger = await _hold(conn, trigger_id, tenant_id, if_match)
        values = await values_of(conn, "trigger", trigger_id)
        await fetch_value(conn, REMOVE, id=trigger_id)
        await record(conn, _event("TRIGGER_REMOVED", trigger, actor), before=values)
    return trigger


async def forget_outages(conn: Connection) -> None:
    """Forget the outages that ended before the first open due time of all schedules."""
    await fetch(conn, FORGET_OUTAGES)


async def read_clock(conn: Connection, tenant_id: UUID) -> tuple[str, datetime]:
    """The zone of a tenant's schedules, and the time that decides what is due."""
    row = await fetch_row(conn, CLOCK, tenant_id=tenant_id)
    if row is None:
        raise no_tenant(tenant_id)
    return row["timezone"], row["now"]


async def _hold(conn: Connection, trigger_id: UUID, tenant_id: UUID | None, if_match: Precondition | None) -> Trigger:
    await fetch(conn, HOLD, id=trigger_id, tenant_id=tenant_id)
    trigger = await find_trigger(conn, trigger_id, tenant_id=tenant_id)
    require_match(trigger, if_match, "trigger", trigger_id)
    return trigger


async def _next_time(conn: Connection, tenant_id: UUID, spec: TriggerSpec, run: Run) -> datetime | None:
    zone, now = await read_clock(conn, tenant_id)
    if spec.cron_expr is None:
        return None
    due: datetime = await run(read_cron(spec.cron_expr, spec.timezone or zone).after, now)
    return due


def _merged(before: Trigger, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The trigger with its changes. A label that says when it fires follows the schedule or the event."""
    merged = {name: getattr(before, name) for name in TriggerSpec.model_fields} | dict(changes)
    if "label" not in changes and before.label == (before.cron_expr or before.event_name):
        merged["label"] = merged["cron_expr"] or merged["event_name"] or before.label
    return merged


def _event(action: str, trigger: Trigger, actor: Actor, **facts: Any) -> Event:
    fields = trigger.model_dump(include={*TriggerSpec.model_fields} - _NOT_AUDITED, exclude_none=True)
    return Event(
        action=action,
        entity_type="trigger",
        entity_id=str(trigger.id),
        actor=actor,
        tenant_id=trigger.tenant_id,
        meta={**fields, **facts},
    )
