"""Explains in one sentence why a trigger did not fire, by the conditions of the scheduler itself."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.explanation import Why, explained, offline, paused, said
from atlas.engine.helper_process import Run, run_here
from atlas.engine.jobs.switches.gate import gate_of
from atlas.engine.triggers.cron import Cron
from atlas.engine.triggers.find import cron_of, find_trigger
from atlas.engine.triggers.misfire import GRACE
from atlas.errors import InvalidInput, NotFound
from atlas.models.explain import Remedy, TriggerExplanation
from atlas.models.sentences import time_in
from atlas.models.triggers import Trigger

EXPLAIN = statement("engine/triggers/sql/explain.sql")

SCHEDULER = "atlas scheduler"
# How far back a due time is looked for that was skipped.
LOOK_BACK = timedelta(days=8)


async def explain_trigger(
    conn: Connection, trigger_id: UUID, *, tenant_id: UUID | None = None, run: Run = run_here
) -> TriggerExplanation:
    """The one reason a trigger did not fire, or when it did and will. `run` may compute due times elsewhere."""
    trigger = await find_trigger(conn, trigger_id, tenant_id=tenant_id)
    row = await fetch_row(conn, EXPLAIN, id=trigger_id)
    if row is None:
        raise NotFound("trigger", trigger_id)
    why = _held(trigger, row)
    if why is None and trigger.trigger_type == "schedule":
        why = _of_schedule(trigger, row, await _last_due(trigger, row["now"], run))
    status = "enabled" if trigger.is_enabled else "disabled"
    return explained(TriggerExplanation, "trigger", trigger_id, status, why or _of_event(trigger, row))


def _held(trigger: Trigger, row: Mapping[str, Any]) -> Why | None:
    """What keeps every trigger from firing."""
    if not trigger.is_enabled:
        command = f"atlas trigger edit {trigger.id} --enable"
        action = Remedy(verb="enable_trigger", target=str(trigger.id))
        return Why("disabled", "The trigger is disabled and does not fire.", "Enable it.", command, action=action)
    gate = gate_of(row["gate"])
    if not gate.online:
        return offline(gate)
    if row["pause"] is not None:
        return paused(orjson.loads(row["pause"]))
    if trigger.last_error is not None and "open_since" in trigger.last_error:
        cause = f"The schedule cannot be computed: {said(trigger.last_error.get('message'))}"
        return Why("broken", cause, "Correct the schedule or the time zone.", f"atlas trigger edit {trigger.id}")
    if not trigger.target_exists:
        kind, name = trigger.target
        if kind == "workflow":
            cause, remedy = f"The workflow {name!r} that it starts does not exist.", "Save it, or start its worker."
        else:
            cause, remedy = f"No worker has ever served {name!r}, which it starts.", "Start a worker that registers it."
        return Why("target_missing", cause, remedy, "atlas worker --all")
    return None


def _of_schedule(trigger: Trigger, row: Mapping[str, Any], last_due: datetime | None) -> Why:
    due, now = trigger.next_fire_at, row["now"]
    if due is None:
        return Why("no_next_time", "The next time is not computed yet.", "Start a scheduler.", SCHEDULER)
    if due < now - GRACE:
        late = int((now - due).total_seconds())
        cause = f"Due at {time_in(due)}, but no scheduler has fired it."
        return Why("late", cause, "Start a scheduler.", SCHEDULER, {"late_seconds": late})
    if row["result"] == "failed":
        return _failed(trigger, row["fired_at"], row["error"])
    has_no_row = last_due is not None and (row["due_at"] is None or row["due_at"] < last_due)
    if last_due is not None and (has_no_row or row["result"] == "missed"):
        missed = f"Due at {time_in(last_due)}, while Atlas was offline or no scheduler ran"
        cause = f"{missed}; the misfire policy is {trigger.misfire}. It fires next at {time_in(due)}."
        return Why("skipped", cause, "Fire it now to catch up.", **_fire(trigger))
    return _decided(row) or Why("scheduled", f"Fires next at {time_in(due)}{_last(row)}.")


def _of_event(trigger: Trigger, row: Mapping[str, Any]) -> Why:
    name = trigger.event_name
    publish = f"atlas event publish {name} --tenant {trigger.tenant_id}"
    if row["event_id"] is None:
        if not row["recent_names"]:
            return Why(
                "no_event", f"Waiting for the event {name}; no event has been published yet.", "Publish one.", publish
            )
        names = ", ".join(row["recent_names"])
        cause = f"Waiting for the event {name}; none of the last events has that name. The newest are {names}."
        return Why("no_match", cause, "Compare the names.", publish)
    event = f"the event {row['event_name']} of {time_in(row['event_at'])}"
    if row["handled_at"] is None:
        return Why("unhandled", f"No scheduler has processed {event} yet.", "Start a scheduler.", SCHEDULER)
    match row["event_result"]:
        case "failed":
            return _failed(trigger, row["event_at"], row["event_error"])
        case "swallowed":
            window = trigger.dedupe_window_seconds
            cause = f"The payload of {event} was a duplicate within the dedupe window of {window} s, so it was ignored."
            remedy = "Fire it now, or shorten the window."
            return Why("swallowed", cause, remedy, numbers={"window_seconds": window}, **_fire(trigger))
        case None:
            active = f"it is active since {time_in(row['active_since'])}"
            cause = f"The last match, {event}, is older than the trigger: {active}."
            return Why("before_active", cause, "Publish the event again.", publish)
        case _:
            return _decided(row) or Why("fired", f"Fired for {event}.")


def _failed(trigger: Trigger, fired_at: datetime, error: str | None) -> Why:
    cause = f"The last firing, at {time_in(fired_at)}, failed: {said(error)}"
    return Why("failed", cause, "Correct it and fire it now.", **_fire(trigger))


def _fire(trigger: Trigger) -> dict[str, Any]:
    """The command and the action that fire a trigger now."""
    return {
        "command": f"atlas trigger fire {trigger.id}",
        "action": Remedy(verb="fire_trigger", target=str(trigger.id)),
    }


def _decided(row: Mapping[str, Any]) -> Why | None:
    """What became of the request for a workflow that it made last."""
    if row["intent_status"] == "blocked":
        cause = f"Fired at {time_in(row['fired_at'])}, but policy blocked the request: {said(row['intent_reason'])}"
        return Why("blocked", cause, "Change the rule or the request.", "atlas workflow policy list")
    if row["intent_status"] == "awaiting_human":
        cause = f"Fired at {time_in(row['fired_at'])}; the request waits for review."
        action = Remedy(verb="decide", target=str(row["approval_id"]))
        return Why(
            "review", cause, "Approve or reject it.", f"atlas workflow approve {row['approval_id']}", action=action
        )
    return None


def _last(row: Mapping[str, Any]) -> str:
    return "" if row["fired_at"] is None else f"; fired last at {time_in(row['fired_at'])}"


async def _last_due(trigger: Trigger, now: datetime, run: Run) -> datetime | None:
    """Its last due time since it is as it is, but for one that may fire any second; None if it cannot be computed."""
    start = max(trigger.updated_at, now - LOOK_BACK)
    if start >= now - GRACE:
        return None
    try:
        found: datetime | None = await run(latest_due, cron_of(trigger), start, now - GRACE)
    except InvalidInput:
        return None
    return found


def latest_due(cron: Cron, start: datetime, end: datetime) -> datetime | None:
    """The last due time between two."""
    return cron.latest(start, end)
