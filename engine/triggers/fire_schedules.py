"""Fires schedules: every due time up to the database's clock, many in one statement.

It may be called by any number of schedulers, at any time. What is due is read, planned and rendered without a lock; the
statement that fires it leaves out what another scheduler has fired since. The time is the database's, and each due time
fires once, under its own record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.triggers.find import cron_of, trigger_of
from atlas.engine.triggers.fire import (
    RENDERING_SECONDS,
    SCHEDULER,
    Firing,
    FiringBatch,
    audit_row,
    fire_batch,
    prepare,
    render_inputs,
)
from atlas.engine.triggers.misfire import ALWAYS, GRACE, Plan, Policy, first_open, plan
from atlas.errors import InvalidInput
from atlas.models.triggers import Trigger

NEXT_DUE = statement("engine/triggers/sql/next_due.sql")
FIRING = statement("engine/triggers/sql/firing.sql")
DUE = statement("engine/triggers/sql/due.sql")

TRIGGERS_AT_ONCE = 500
# Due times of one trigger that catches up under `all`, and firings of all triggers; the next polls fire the rest.
TIMES_AT_ONCE = 200
FIRINGS_AT_ONCE = 1000
MISSED_AT_ONCE = 5000
# How long until a schedule that cannot be computed is tried again. Its open due time is kept in its error.
BROKEN_PAUSE = timedelta(hours=1)
# When another scheduler is firing what is due, look again after this time.
BUSY_SECONDS = 0.1


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
        return await _fire_due(conn, {"limit": limit, "without": list(without)}, late_by, held)
    except Exception as error:
        raise Unfired(held) from error


async def _fire_due(conn: Connection, which: dict[str, Any], late_by: float, held: list[UUID]) -> Polled:
    gate = await fetch_row(conn, FIRING, grace=GRACE.total_seconds())
    assert gate is not None
    if not gate["is_open"]:
        return Polled(closed=True)
    until = gate["now"] - timedelta(seconds=late_by)
    rows = await fetch(conn, DUE, until=until, outages=gate["outages"], **which)
    held += [row["id"] for row in rows]
    batch = await _plan_all(rows, gate["now"])
    await prepare(conn, batch.firings, SCHEDULER)
    recorded = await fire_batch(conn, batch)
    if recorded is None:
        return Polled(next_in=BUSY_SECONDS)
    # More may be due by now, or may not have fitted in: poll again immediately.
    return Polled(fired=sum(firing.result != "missed" for firing in recorded), next_in=0.0 if rows else None)


async def _plan_all(rows: Sequence[Any], now: datetime) -> FiringBatch:
    """The plan of each trigger, up to as many firings as go together."""
    batch = FiringBatch(now, {}, [])
    took, missed = 0.0, 0
    for row in rows:
        trigger = trigger_of(row)
        batch.triggers[trigger.id] = trigger
        try:
            plan = _plan(trigger, row, now, room=FIRINGS_AT_ONCE - len(batch.firings) + missed)
        except InvalidInput as error:
            batch.next_times[trigger.id] = now + BROKEN_PAUSE
            batch.broken[trigger.id] = {"message": str(error), "at": now, "open_since": trigger.first_due}
            batch.audit.append(audit_row(trigger, "TRIGGER_FAILED", str(error)))
            continue
        batch.next_times[trigger.id] = plan.next_fire_at
        asked = [(_firing(trigger, due), schedule_scope(trigger, due)) for due in plan.fire]
        took += await render_inputs(asked)
        batch.firings += [firing for firing, _ in asked]
        _note_missed(batch, trigger, plan)
        missed += len(plan.missed)
        if len(batch.firings) - missed >= FIRINGS_AT_ONCE or missed >= MISSED_AT_ONCE or took >= RENDERING_SECONDS:
            break
    return batch


def schedule_scope(trigger: Trigger, due: datetime) -> dict[str, Any]:
    """The names that the template of a schedule may use."""
    return {"fire": {"due_at": due.isoformat(), "local": due.astimezone(cron_of(trigger).zone).isoformat()}}


def _plan(trigger: Trigger, row: Any, now: datetime, *, room: int) -> Plan:
    # No one knew its times while it could not be computed.
    is_broken = trigger.last_error is not None and "open_since" in trigger.last_error
    return plan(
        cron_of(trigger),
        cast("Policy", trigger.misfire),
        due=first_open(cron_of(trigger), trigger.first_due, row["active_since"] or now),
        now=now,
        outages=[ALWAYS]
        if is_broken
        else [(outage.lower or ALWAYS[0], outage.upper or ALWAYS[1]) for outage in row["outages"]],
        most=min(room, TIMES_AT_ONCE),
        max_missed=MISSED_AT_ONCE,
    )


def _firing(trigger: Trigger, due: datetime) -> Firing:
    return Firing(trigger, "schedule", due_at=due)


def _note_missed(batch: FiringBatch, trigger: Trigger, plan: Plan) -> None:
    """A row for each due time that was missed and does not fire, and one audit event for all of them."""
    if not plan.missed:
        return
    policy = trigger.misfire
    reason = f"Nothing could fire when it was due, and the misfire policy is {policy}."
    for first, last in plan.missed:
        firing = _firing(trigger, first)
        more = "" if first == last else f" So were all due times up to {last:%Y-%m-%d %H:%M} UTC."
        firing.result, firing.job_id, firing.error = "missed", None, reason + more
        batch.firings.append(firing)
    facts = {"policy": policy, "first": plan.missed[0][0].isoformat(), "last": plan.missed[-1][1].isoformat()}
    batch.audit.append(audit_row(trigger, "TRIGGER_MISSED", "Due times passed while nothing could fire.", **facts))
