"""Stored triggers: add, edit, remove, find, list. Each change is audited."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit import Event, record
from atlas.bounds import LARGEST_PAGE
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.etags import etag_of, require_match
from atlas.engine.helper_process import Run, run_here
from atlas.engine.quotas import require_room
from atlas.engine.triggers.cron import Cron, known_cron, read_cron
from atlas.engine.triggers.spec import TARGETS, TriggerSpec, read_trigger
from atlas.engine.triggers.target import check_target
from atlas.errors import NotFound, no_tenant
from atlas.ids import new_id

STAY = statement("engine/triggers/sql/stay.sql")
CLOCK = statement("engine/triggers/sql/clock.sql")
ADD = statement("engine/triggers/sql/add.sql")
EDIT = statement("engine/triggers/sql/edit.sql")
REMOVE = statement("engine/triggers/sql/remove.sql")
FIND = statement("engine/triggers/sql/find.sql")
HOLD = statement("engine/triggers/sql/hold.sql")
LIST = statement("engine/triggers/sql/list.sql")
SCHEDULES = statement("engine/triggers/sql/schedules.sql")

# Not repeated in the audit log: a template may hold anything.
_NOT_AUDITED = {"payload_template"}


@dataclass(frozen=True, slots=True)
class Trigger:
    """A stored trigger. `zone` is the one its schedule follows: its own, else its tenant's."""

    id: UUID
    tenant_id: UUID
    spec: TriggerSpec
    zone: str
    # False while its job type is not published, or its workflow not saved. Those who fire do not read it.
    target_exists: bool
    last_fire_at: datetime | None
    next_fire_at: datetime | None
    last_error: dict[str, Any] | None
    created_by: str
    edited_by: str | None
    created_at: datetime
    updated_at: datetime
    # The module whose code declares it. None: a person's.
    declared_by: str | None

    @property
    def etag(self) -> str:
        """The tag of what an edit can change."""
        return etag_of(self.id, self.spec.model_dump())

    @property
    def arranged_by(self) -> str:
        """Who requests what it starts: the last person who changed when it fires, or what it starts."""
        return self.edited_by or self.created_by

    @property
    def first_due(self) -> datetime | None:
        """Its first open due time: its next, or, while its schedule cannot be computed, the one it stopped at."""
        if self.last_error is None or "open_since" not in self.last_error:
            return self.next_fire_at
        stopped = self.last_error["open_since"]
        return None if stopped is None else datetime.fromisoformat(stopped)

    @property
    def cron(self) -> Cron:
        """Its schedule; InvalidInput if this machine's tz database has no such zone."""
        assert self.spec.cron_expr is not None
        return known_cron(self.spec.cron_expr, self.zone)

    def as_json(self) -> dict[str, Any]:
        """All fields, for the API and the command line."""
        facts = (
            "zone",
            "target_exists",
            "last_fire_at",
            "next_fire_at",
            "last_error",
            "created_by",
            "declared_by",
            "created_at",
            "updated_at",
        )
        own = {"id": str(self.id), "tenant_id": str(self.tenant_id)}
        return {**own, **self.spec.model_dump(), **{name: getattr(self, name) for name in facts}}


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
    id = new_id()
    async with conn.transaction():
        await require_room(conn, "triggers", tenant_id)
        await check_target(conn, tenant_id, spec)
        # A concurrent change of the tenant's zone would not see a schedule that is just being added.
        await fetch(conn, STAY, tenant_id=tenant_id)
        next_fire_at = await _next_time(conn, tenant_id, spec, run)
        columns = {"id": id, "tenant_id": tenant_id, "created_by": actor.id, "next_fire_at": next_fire_at}
        await fetch(conn, ADD, **columns, declared_by=declared_by, **_columns(spec))
        trigger = await find_trigger(conn, id)
        await record(conn, _event("TRIGGER_ADDED", trigger, actor))
    return trigger


async def edit_trigger(
    conn: Connection,
    trigger_id: UUID,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Collection[str] | None = None,
    run: Run = run_here,
) -> Trigger:
    """Change some fields of a trigger. With another schedule or event, or enabled again, it starts from now."""
    async with conn.transaction():
        # Before its row is locked: a change of the zone locks the zone, and then the rows of the schedules.
        await fetch(conn, STAY, tenant_id=(await find_trigger(conn, trigger_id, tenant_id=tenant_id)).tenant_id)
        before = await _hold(conn, trigger_id, tenant_id, if_match)
        spec: TriggerSpec = await run(read_trigger, _merged(before.spec, changes))
        changed = sorted(name for name in TriggerSpec.model_fields if getattr(spec, name) != getattr(before.spec, name))
        # Its target may have changed since: a trigger that no longer fits can be disabled, and renamed.
        if {"payload_template", *TARGETS} & set(changed) or (spec.is_enabled and "is_enabled" in changed):
            await check_target(conn, before.tenant_id, spec)
        next_fire_at = before.first_due
        if {"cron_expr", "timezone", "trigger_type", "is_enabled"} & set(changed):
            next_fire_at = await _next_time(conn, before.tenant_id, spec, run)
        edited_by = actor.id if set(changed) - {"label"} else before.edited_by
        begins_anew = bool({"event_name", "trigger_type", "is_enabled"} & set(changed))
        facts = {"next_fire_at": next_fire_at, "edited_by": edited_by, "begins_anew": begins_anew}
        await fetch(conn, EDIT, id=trigger_id, **facts, **_columns(spec))
        trigger = await find_trigger(conn, trigger_id)
        await record(conn, _event("TRIGGER_EDITED", trigger, actor, changed=changed))
    return trigger


async def remove_trigger(
    conn: Connection,
    trigger_id: UUID,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Collection[str] | None = None,
) -> Trigger:
    """Remove a trigger. Its jobs, and the record of its firings, stay."""
    async with conn.transaction():
        trigger = await _hold(conn, trigger_id, tenant_id, if_match)
        await fetch_value(conn, REMOVE, id=trigger_id)
        await record(conn, _event("TRIGGER_REMOVED", trigger, actor))
    return trigger


async def find_trigger(conn: Connection, trigger_id: UUID, *, tenant_id: UUID | None = None) -> Trigger:
    """One trigger; `NotFound` if there is none, or if it is another tenant's."""
    row = await fetch_row(conn, FIND, id=trigger_id, tenant_id=tenant_id)
    if row is None:
        raise _unknown(trigger_id)
    return trigger_of(row)


async def list_triggers(
    conn: Queryable, *, tenant_id: UUID | None = None, after: UUID | None = None, limit: int = LARGEST_PAGE
) -> list[Trigger]:
    """A page of triggers, oldest first."""
    values = {"tenant_id": tenant_id, "after": after, "limit": min(limit, LARGEST_PAGE)}
    return [trigger_of(row) for row in await conn.fetch(LIST.sql, *LIST.bind(values))]


async def list_schedules(conn: Queryable, *, within: timedelta) -> dict[tuple[str, str], datetime]:
    """The (expression, zone) pairs of the enabled triggers that are due within a time, and their next due times."""
    rows = await conn.fetch(SCHEDULES.sql, *SCHEDULES.bind({"within": within.total_seconds()}))
    return {(row["cron_expr"], row["zone"]): row["next_fire_at"] for row in rows}


async def read_clock(conn: Connection, tenant_id: UUID) -> tuple[str, datetime]:
    """The zone of a tenant's schedules, and the time that decides what is due."""
    row = await fetch_row(conn, CLOCK, tenant_id=tenant_id)
    if row is None:
        raise no_tenant(tenant_id)
    return row["timezone"], row["now"]


def trigger_of(row: Any) -> Trigger:
    """A trigger from its row. It was checked when it was saved, and is not checked again."""
    fields = {name: row[name] for name in TriggerSpec.model_fields}
    fields["payload_template"] = orjson.loads(fields["payload_template"])
    error = row["last_error"]
    return Trigger(
        id=row["id"],
        tenant_id=row["tenant_id"],
        spec=TriggerSpec.model_construct(**fields),
        zone=row["zone"],
        target_exists=row.get("target_exists", True),
        last_fire_at=row["last_fire_at"],
        next_fire_at=row["next_fire_at"],
        last_error=None if error is None else orjson.loads(error),
        created_by=row["created_by"],
        edited_by=row["edited_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        declared_by=row.get("declared_by"),
    )


async def _hold(
    conn: Connection, trigger_id: UUID, tenant_id: UUID | None, if_match: Collection[str] | None
) -> Trigger:
    row = await fetch_row(conn, HOLD, id=trigger_id, tenant_id=tenant_id)
    if row is None:
        raise _unknown(trigger_id)
    trigger = trigger_of(row)
    require_match(trigger.etag, if_match, "trigger", trigger_id)
    return trigger


async def _next_time(conn: Connection, tenant_id: UUID, spec: TriggerSpec, run: Run) -> datetime | None:
    zone, now = await read_clock(conn, tenant_id)
    if spec.cron_expr is None:
        return None
    due: datetime = await run(read_cron(spec.cron_expr, spec.timezone or zone).after, now)
    return due


def _merged(before: TriggerSpec, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The trigger with its changes. A label that says when it fires follows the schedule or the event."""
    merged = {**before.model_dump(), **changes}
    if "label" not in changes and before.label == (before.cron_expr or before.event_name):
        merged["label"] = merged["cron_expr"] or merged["event_name"] or before.label
    return merged


def _columns(spec: TriggerSpec) -> dict[str, Any]:
    return {**spec.model_dump(), "payload_template": orjson.dumps(spec.payload_template).decode()}


def _unknown(trigger_id: UUID) -> NotFound:
    return NotFound("trigger", trigger_id, remedy="`atlas trigger list` shows the triggers there are.")


def _event(action: str, trigger: Trigger, actor: Actor, **facts: Any) -> Event:
    fields = trigger.spec.model_dump(exclude=_NOT_AUDITED, exclude_none=True)
    return Event(
        action=action,
        entity_type="trigger",
        entity_id=str(trigger.id),
        actor=actor,
        tenant_id=trigger.tenant_id,
        meta={**fields, **facts},
    )
