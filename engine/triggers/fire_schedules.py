"""Fires schedules: one transaction fires every due time up to the database's clock.

It may be called by any number of schedulers, at any time. The due rows are locked, so that two schedulers share the
work; the time is the database's; and each due time fires once, under its own record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.triggers.find import Trigger, trigger_of
from atlas.engine.triggers.fire import RENDERING_SECONDS, SCHEDULER, Firing, fire_all, render_inputs
from atlas.engine.triggers.misfire import Plan, plan
from atlas.errors import InvalidInput

NEXT_DUE = statement("engine/triggers/sql/next_due.sql")
FIRING = statement("engine/triggers/sql/firing.sql")
DUE = statement("engine/triggers/sql/due.sql")
ADVANCE = statement("engine/triggers/sql/advance.sql")

TRIGGERS_AT_ONCE = 500
# Due times of one trigger that catches up under `all`, and firings of all triggers; the next polls fire the rest. The
# server ends a transaction that is idle too long between two statements.
TIMES_AT_ONCE = 200
FIRINGS_AT_ONCE = 1000
# How long until a schedule that cannot be computed is tried again. Its open due time is kept in its error.
BROKEN_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of a poll. `next_in` is the number of seconds until the next due time, None if there is none."""

    fired: int = 0
    closed: bool = False
    next_in: float | None = None


class Unfired(Exception):
    """A batch that could not be fired; the cause says why. `held` are its triggers, or its events."""

    def __init__(self, held: Sequence[UUID]) -> None:
        super().__init__(f"{len(held)} could not be fired, together or alone")
        self.held = held


async def fire_due(
    conn: Connection, *, late_by: float = 0.0, limit: int = TRIGGERS_AT_ONCE, without: Sequence[UUID] = ()
) -> Polled:
    """Fire every schedule that is due by the database's clock, each due time once, by its misfire policy.

    Nothing fires while Atlas is offline. With `late_by` only what is that many seconds late fires: for schedulers that
    do not lead. Raises `Unfired` with the batch that failed; `without` leaves out triggers that failed before.
    """
    next_in: float | None = await fetch_value(conn, NEXT_DUE)
    if next_in is None or next_in > -late_by:
        return Polled(next_in=None if next_in is None else next_in + late_by)
    held: list[UUID] = []
    try:
        async with conn.transaction(isolation="read_committed"):
            return await _fire_due(conn, {"limit": limit, "without": list(without)}, late_by, held)
    except Exception as error:
        raise Unfired(held) from error


async def _fire_due(conn: Connection, which: dict[str, Any], late_by: float, held: list[UUID]) -> Polled:
    gate = await fetch_row(conn, FIRING)
    assert gate is not None
    if not gate["is_open"]:
        return Polled(closed=True)
    rows = await fetch(conn, DUE, until=gate["now"] - timedelta(seconds=late_by), **which)
    held += [row["id"] for row in rows]
    planned, firings = await _plan_all(conn, [(trigger_of(row), row["active_since"]) for row in rows], gate)
    fired = await fire_all(conn, firings, now=gate["now"])
    await _advance(conn, planned)
    # More may be due by now, or may not have fitted in: poll again at once.
    return Polled(fired=len(fired), next_in=0.0 if rows else None)


async def _plan_all(
    conn: Connection, triggers: Sequence[tuple[Trigger, datetime | None]], gate: Any
) -> tuple[list[tuple[Trigger, Plan]], list[Firing]]:
    """The plan of each trigger, up to as many firings as one transaction takes, and these firings."""
    planned: list[tuple[Trigger, Plan]] = []
    firings: list[Firing] = []
    took = 0.0
    for trigger, since in triggers:
        found = await _plan(conn, trigger, since, gate, most=min(FIRINGS_AT_ONCE - len(firings), TIMES_AT_ONCE))
        planned.append((trigger, found))
        asked = [(_firing(trigger, due), schedule_scope(trigger, due)) for due in found.fire]
        took += await render_inputs(asked)
        firings += [firing for firing, _ in asked]
        if len(firings) >= FIRINGS_AT_ONCE or took >= RENDERING_SECONDS:
            break
    return planned, firings


async def _plan(conn: Connection, trigger: Trigger, since: datetime | None, gate: Any, *, most: int) -> Plan:
    try:
        found = plan(
            trigger.cron,
            trigger.spec.misfire,
            due=trigger.first_due,
            since=since,
            now=gate["now"],
            online_since=gate["online_since"],
            most=most,
        )
    except InvalidInput as error:
        await _audit(conn, trigger, "TRIGGER_FAILED", str(error))
        return Plan(next_fire_at=gate["now"] + BROKEN_PAUSE, error=_error(trigger, error, gate["now"]))
    if found.dropped is not None:
        first, last = found.dropped
        facts = {"policy": trigger.spec.misfire, "first": first.isoformat(), "last": last.isoformat()}
        await _audit(conn, trigger, "TRIGGER_MISSED", "Due times passed while nothing could fire.", **facts)
    return found


def _error(trigger: Trigger, error: InvalidInput, now: datetime) -> str:
    return orjson.dumps({"message": str(error), "at": now, "open_since": trigger.first_due}).decode()


async def _audit(conn: Connection, trigger: Trigger, action: str, message: str, **facts: Any) -> None:
    event = Event(
        action=action,
        entity_type="trigger",
        entity_id=str(trigger.id),
        actor=SCHEDULER,
        tenant_id=trigger.tenant_id,
        message=message,
        level="warn",
        meta={"label": trigger.spec.label, **facts},
    )
    await record(conn, event)


def _firing(trigger: Trigger, due: datetime) -> Firing:
    return Firing(trigger, "schedule", due_at=due)


def schedule_scope(trigger: Trigger, due: datetime) -> dict[str, Any]:
    """The names that the template of a schedule may use."""
    return {"fire": {"due_at": due.isoformat(), "local": due.astimezone(trigger.cron.zone).isoformat()}}


async def _advance(conn: Connection, planned: Sequence[tuple[Trigger, Plan]]) -> None:
    await fetch(
        conn,
        ADVANCE,
        ids=[trigger.id for trigger, _ in planned],
        seen=[trigger.next_fire_at for trigger, _ in planned],
        nexts=[found.next_fire_at for _, found in planned],
        errors=[found.error for _, found in planned],
    )
