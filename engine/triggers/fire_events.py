"""Fires the triggers of events: each event is handled once, and fires each matching trigger once.

An event carries its own mark that it is handled. A cursor over the events would not do: an event that is committed late
can have a lower id than those handled already.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.triggers.find import trigger_of
from atlas.engine.triggers.fire import (
    RENDERING_SECONDS,
    SCHEDULER,
    Firing,
    FiringBatch,
    fire_batch,
    prepare,
    render_inputs,
)
from atlas.engine.triggers.fire_schedules import BUSY_SECONDS, FIRING, Polled, Unfired
from atlas.engine.triggers.misfire import GRACE
from atlas.models.triggers import Trigger

ANY_EVENT = statement("engine/triggers/sql/any_event.sql")
EVENTS = statement("engine/triggers/sql/events.sql")
MATCHING = statement("engine/triggers/sql/matching.sql")
RECENT = statement("engine/triggers/sql/recent.sql")

EVENTS_AT_ONCE = 100
# An event may fire thousands of triggers. Then fewer events go together.
FIRINGS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as the triggers see it."""

    id: UUID
    tenant_id: UUID
    name: str
    context: dict[str, Any]
    correlation_id: str | None
    created_at: datetime

    @property
    def scope(self) -> dict[str, Any]:
        """`event` in a template: its `context`, and each field of the context whose name is free."""
        facts = {"id": str(self.id), "name": self.name, "created_at": self.created_at.isoformat()}
        return {"event": {**self.context, **facts, "correlation_id": self.correlation_id, "context": self.context}}


async def fire_due_events(
    conn: Connection, *, late_by: float = 0.0, limit: int = EVENTS_AT_ONCE, without: Sequence[UUID] = ()
) -> Polled:
    """Fire the triggers of the events that are not handled yet. While Atlas is offline nothing fires and events wait.

    Raises `Unfired` with the batch that failed; `without` leaves out events that failed before.
    """
    if not await fetch_value(conn, ANY_EVENT, late_by=late_by):
        return Polled()
    held: list[UUID] = []
    try:
        return await _fire_events(conn, {"late_by": late_by, "limit": limit, "without": list(without)}, held)
    except Exception as error:
        raise Unfired(held) from error


async def _fire_events(conn: Connection, which: dict[str, Any], held: list[UUID]) -> Polled:
    gate = await fetch_row(conn, FIRING, grace=GRACE.total_seconds())
    assert gate is not None
    if not gate["is_open"]:
        return Polled(closed=True)
    rows = await fetch(conn, EVENTS, **which)
    held += [row["id"] for row in rows]
    events, firings = await _find_firings(conn, [_event_of(row) for row in rows])
    await prepare(conn, firings, SCHEDULER)
    await _swallow(conn, firings, gate["now"])
    triggers = {firing.trigger.id: firing.trigger for firing in firings}
    batch = FiringBatch(gate["now"], triggers, firings, events=[event.id for event in events])
    recorded = await fire_batch(conn, batch)
    if recorded is None:
        return Polled(next_in=BUSY_SECONDS)
    return Polled(fired=sum(firing.result == "fired" for firing in recorded), next_in=0.0 if events else None)


def matches_name(pattern: str, name: str) -> bool:
    """Whether a trigger's event name, exact or `provider.*`, matches an event."""
    return pattern == name or (pattern.endswith(".*") and name.startswith(pattern[:-1]))


def patterns_of(name: str) -> Iterator[str]:
    """Every event name of a trigger that matches an event: its own name, and `x.*` for each prefix `x` of it."""
    yield name
    parts = name.split(".")
    for length in range(1, len(parts)):
        yield f"{'.'.join(parts[:length])}.*"


async def _find_firings(conn: Connection, waiting: Sequence[StoredEvent]) -> tuple[list[StoredEvent], list[Firing]]:
    """The events that go together, and their firings."""
    names = sorted({pattern for event in waiting for pattern in patterns_of(event.name)})
    rows = await fetch(conn, MATCHING, names=names, tenants=list({event.tenant_id for event in waiting}))
    triggers = [(trigger_of(row), row["active_since"]) for row in rows]
    events: list[StoredEvent] = []
    firings: list[Firing] = []
    took = 0.0
    for event in waiting:
        matching = [_firing(trigger, event) for trigger, since in triggers if _matches(trigger, since, event)]
        scope = event.scope
        took += await render_inputs([(firing, scope) for firing in matching])
        firings += matching
        events.append(event)
        if len(firings) >= FIRINGS_AT_ONCE or took >= RENDERING_SECONDS:
            break
    for firing in firings:
        if firing.input is not None:
            firing.payload_hash = hashlib.sha256(orjson.dumps(firing.input, option=orjson.OPT_SORT_KEYS)).digest()
    return events, firings


def _matches(trigger: Trigger, since: datetime, event: StoredEvent) -> bool:
    # An event from before the trigger was added, enabled or given this name does not fire it.
    is_candidate = trigger.tenant_id == event.tenant_id and since <= event.created_at
    return is_candidate and matches_name(trigger.event_name or "", event.name)


def _firing(trigger: Trigger, event: StoredEvent) -> Firing:
    return Firing(trigger, "event", event_id=event.id, correlation_id=event.correlation_id)


async def _swallow(conn: Connection, firings: Sequence[Firing], now: datetime) -> None:
    """Swallow firings whose trigger fired with the same input within its window, in this batch or before.

    Only one that starts something swallows another.
    """
    watched = [firing for firing in firings if _has_window(firing)]
    rows = await fetch(
        conn,
        RECENT,
        triggers=[firing.trigger.id for firing in watched],
        hashes=[firing.payload_hash for firing in watched],
        windows=[firing.trigger.dedupe_window_seconds for firing in watched],
        now=now,
    )
    started: dict[Any, UUID | None] = {(row["trigger_id"], row["payload_hash"]): row["job_id"] for row in rows}
    for firing in watched:
        key = (firing.trigger.id, firing.payload_hash)
        if key in started:
            firing.swallow(started[key])
        else:
            started[key] = firing.job_id


def _has_window(firing: Firing) -> bool:
    return firing.result == "fired" and firing.payload_hash is not None and firing.trigger.dedupe_window_seconds > 0


def _event_of(row: Any) -> StoredEvent:
    return StoredEvent(**{**row, "context": orjson.loads(row["context"])})
