"""Writing an event: its bytes are made once, here or in SQL, and nobody ever serialises them again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.personal_data import Personal, conceal
from atlas.db.pg_json import stored_json, stored_text
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

Level = Literal["info", "warn", "error"]

RECORD = statement("audit/sql/record.sql")


@dataclass(frozen=True, slots=True)
class Event:
    """Who did what to which thing. `meta` holds the facts; it must be plain JSON."""

    action: str
    entity_type: str
    entity_id: str
    actor: Actor
    tenant_id: UUID | None = None
    message: str = ""
    level: Level = "info"
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """The meta with what is known about the request behind the actor."""
        return {**self.meta, **self.actor.meta}


def body_of(event: Event) -> bytes:
    """The bytes that are stored and hashed: the same values as the search columns, as JSON."""
    return stored_json(
        {
            "tenant_id": None if event.tenant_id is None else str(event.tenant_id),
            "actor_type": event.actor.type,
            "actor_id": event.actor.id,
            "level": event.level,
            "action": event.action,
            "entity_type": event.entity_type,
            "entity_id": event.entity_id,
            "message": event.message,
            "meta": event.facts,
        },
        default=None,
    ).encode()


async def record(conn: Connection, event: Event, *, personal: Personal | None = None) -> int:
    """Write one event in the caller's transaction and answer its id.

    `personal` fields (recipients, subjects, addresses of people) appear in the event's meta as commitments;
    their values are kept apart, where they can be erased.
    """
    shapes, values = conceal(personal or {}, entity_id=event.entity_id)
    event = replace(event, message=stored_text(event.message), meta={**event.meta, **shapes})
    written: int = await fetch_value(
        conn,
        RECORD,
        tenant_id=event.tenant_id,
        actor_type=event.actor.type,
        actor_id=event.actor.id,
        level=event.level,
        action=event.action,
        entity_type=event.entity_type,
        entity_id=event.entity_id,
        message=event.message,
        meta=stored_json(event.facts, default=None),
        body=body_of(event),
        private=stored_json([value.row for value in values]),
    )
    return written
