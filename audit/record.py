"""Writes an audit event, and makes the bytes of every event that is made in Python.

The bytes are hashed. They are made once, by `event_body` here or by the database's function of the same purpose, and
never serialised again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.changes import Values, changes_between, values_of
from atlas.audit.personal_data import Personal, conceal
from atlas.audit.state import state_of
from atlas.db.pg_json import stored_json, stored_text
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

Level = Literal["info", "warn", "error"]

RECORD = statement("audit/sql/record.sql")


@dataclass(frozen=True, slots=True)
class Event:
    """Who did what to which entity. `meta` must be plain JSON; what is known of the actor's request is added to it."""

    action: str
    entity_type: str
    entity_id: str
    actor: Actor
    tenant_id: UUID | None = None
    message: str = ""
    level: Level = "info"
    meta: Mapping[str, Any] = field(default_factory=dict)


def event_body(
    action: str,
    actor_type: str,
    actor_id: str,
    entity_type: str,
    entity_id: UUID | str,
    tenant_id: UUID | None,
    meta: str,
    message: str = "",
    level: str = "info",
) -> bytes:
    """The bytes that are stored and hashed: the values of the search columns as one JSON object.

    `meta` is JSON text. Workers and bulk enqueues make thousands of these a second, most of them alike but for the
    id, so the parts that repeat are cached.
    """
    opening, middle, closing = _frame(action, actor_type, actor_id, entity_type, level, tenant_id)
    entity = f'"{entity_id}"' if isinstance(entity_id, UUID) else stored_json(entity_id)
    quoted = stored_json(message) if message else '""'
    return f'{opening}{entity}{middle}{quoted},"meta":{meta}{closing}'.encode()


def event_frame(
    action: str, actor_type: str, actor_id: str, entity_type: str, tenant_id: UUID | None, meta: str
) -> tuple[bytes, bytes]:
    """The bytes before and after an entity's UUID, for a statement that writes many events alike but for it."""
    opening, middle, closing = _frame(action, actor_type, actor_id, entity_type, "info", tenant_id)
    return f'{opening}"'.encode(), f'"{middle}"","meta":{meta}{closing}'.encode()


@lru_cache(maxsize=4096)
def _frame(
    action: str, actor_type: str, actor_id: str, entity_type: str, level: str, tenant_id: UUID | None
) -> tuple[str, str, str]:
    """The bytes before the entity's id, between it and the message, and after the meta."""
    who = f'"actor_id":{stored_json(actor_id)},"actor_type":{stored_json(actor_type)}'
    return (
        f'{{"action":{stored_json(action)},{who},"entity_id":',
        f',"entity_type":{stored_json(entity_type)},"level":{stored_json(level)},"message":',
        f',"tenant_id":{stored_json(tenant_id)}}}',
    )


async def record(
    conn: Connection, event: Event, *, personal: Personal | None = None, before: Values | None = None
) -> int:
    """Write one event in the caller's transaction, after the change it is about, and return its id.

    `personal` fields (recipients, subjects, addresses of people) appear in the event's meta as commitments;
    their values are kept apart, where they can be erased. `before` has the `values_of` the entity before an edit, or
    the columns that the edit's guard requires: the event holds those that differ now, under `changes`.
    """
    shapes, values = conceal(personal or {}, entity_id=event.entity_id)
    actor = event.actor
    state = await state_of(conn, event.entity_type, event.entity_id, event.tenant_id)
    if before is not None:
        after = await values_of(conn, event.entity_type, event.entity_id, event.tenant_id)
        shapes["changes"], kept = changes_between(event.entity_type, before, after, entity_id=event.entity_id)
        values += kept
    meta = stored_json({**event.meta, **shapes, **state, **actor.meta}, default=None)
    message = stored_text(event.message)
    written: int = await fetch_value(
        conn,
        RECORD,
        tenant_id=event.tenant_id,
        actor_type=actor.type,
        actor_id=actor.id,
        level=event.level,
        action=event.action,
        entity_type=event.entity_type,
        entity_id=event.entity_id,
        message=message,
        meta=meta,
        body=event_body(
            event.action,
            actor.type,
            actor.id,
            event.entity_type,
            event.entity_id,
            event.tenant_id,
            meta,
            message,
            event.level,
        ),
        private=stored_json(values),
    )
    return written
