"""Explains in one sentence why a run does not go on: what it waits for, or what holds its request or its job."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.explanation import Why, explained, offline, said
from atlas.engine.jobs.explain.explain_job import awaited, awaits_approval, explain, until
from atlas.engine.jobs.lists.newest_active import NewestWindow
from atlas.engine.jobs.switches.gate import gate_of
from atlas.engine.workflows.engine_state import SILENT_SECONDS
from atlas.errors import NotFound
from atlas.models.explain import Remedy, RunExplanation
from atlas.models.sentences import time_in

EXPLAIN = statement("engine/workflows/sql/explain_run.sql")


async def explain_run(
    conn: Connection, run_id: UUID, *, tenant_id: UUID | None = None, window: NewestWindow | None = None
) -> RunExplanation:
    """The one reason a run, or the request for one, does not go on, or who executes it."""
    row = await fetch_row(conn, EXPLAIN, id=run_id, tenant_id=tenant_id)
    if row is None:
        raise NotFound("run", run_id, remedy="`atlas workflow list` lists the runs.")
    if not row["has_run"]:
        return explained(RunExplanation, "run", run_id, row["intent_status"], _of_request(run_id, row))
    of_job = await explain(conn, run_id, tenant_id=tenant_id, window=window)
    command = None if of_job.command is None else of_job.command.replace("atlas jobs", "atlas workflow")
    steps = [] if row["steps"] is None else orjson.loads(row["steps"])
    if of_job.reason not in ("waiting", "not_due") or not steps:
        # Its own page needs no button that opens it.
        action = None if of_job.reason == "compensated" else of_job.action
        return RunExplanation(**{**dict(of_job), "kind": "run", "command": command, "action": action})
    return explained(RunExplanation, "run", run_id, "waiting", _of_steps(steps, row["tenant_id"]))


def _of_request(run_id: UUID, row: Mapping[str, Any]) -> Why:
    gate = gate_of(row["gate"])
    match row["intent_status"]:
        case "awaiting_human":
            cause = f"The request waits for review: {said(row['intent_reason'])}"
            return Why("review", cause, "Approve or reject it.", **_decide(row["review_id"]))
        case "blocked":
            cause = f"Policy blocked the request: {said(row['intent_reason'])}"
            return Why("blocked", cause, "Change the rule or the request.", "atlas workflow policy list")
        case "rejected" | "failed":
            cause = f"The request was {row['intent_status']}: {said(row['intent_reason'])}"
            return Why("rejected", cause, "Request it again.", f"atlas workflow run {row['workflow']}")
        case "queued" | "executed":
            return Why("gone", "The run was removed.", "See the audit log.", f"atlas audit tail --entity {run_id}")
    if not gate.online:
        return offline(gate)
    if not gate.engine_enabled:
        action = Remedy(verb="enable_engine")
        return Why(
            "engine_off", gate.why_engine_off(time_in), "Switch the engine on.", "atlas engine on", action=action
        )
    if row["silent_seconds"] is None or row["silent_seconds"] > SILENT_SECONDS:
        cause = "No scheduler or worker processes workflow requests."
        return Why("engine_silent", cause, "Start a scheduler.", "atlas scheduler")
    return Why("requested", "The request is processed next.")


def _of_steps(steps: Sequence[Mapping[str, Any]], tenant_id: UUID) -> Why:
    """What its steps wait for; of several, the way out of the one that a person can do something about."""
    retrying = next((step for step in steps if step["status"] == "retrying"), None)
    if retrying is not None:
        count = retrying["attempts"]
        attempts = f"{count} {'attempt' if count == 1 else 'attempts'}"
        cause = f'Step "{retrying["name"]}" failed after {attempts} and is retried at {_at(retrying)}: '
        return Why("retrying", cause + said(retrying["message"]), numbers={"attempts": retrying["attempts"]})
    first = min(steps, key=_order)
    ends = [_time(step) for step in steps]
    last = None if None in ends else max(end for end in ends if end is not None)
    if first["kind"] == "sleep":
        return Why("sleeping", f"Sleeping until {_at(first)}.")
    cause = f"Waiting for {' and '.join(map(awaited, steps))}{until(last, steps)}."
    numbers = {"steps": len(steps)}
    match _awaits(first):
        case "approval":
            return Why("approval", cause, "Approve or reject it.", numbers=numbers, **_decide(first["approval_id"]))
        case "event":
            command = f"atlas event publish {first['event_name']} --tenant {tenant_id}"
            if first["event_match"]:
                command += f" --context {shlex.quote(orjson.dumps(first['event_match']).decode())}"
            return Why("event", cause, "Publish the event.", command, numbers)
        case kind:
            remedy = f"That {'job' if kind == 'job' else 'run'} is {first['child_status'] or 'deleted'}; see why."
            reason = "job" if kind == "job" else "child"
            action = (
                None
                if first["child_id"] is None
                else Remedy(verb=f"open_{'job' if kind == 'job' else 'run'}", target=first["child_id"])
            )
            return Why(reason, cause, remedy, f"atlas explain {first['child_id']}", numbers, action)


def _decide(approval_id: object) -> dict[str, Any]:
    """The command and the action that decide about an approval."""
    return {
        "command": f"atlas workflow approve {approval_id}",
        "action": Remedy(verb="decide", target=str(approval_id)),
    }


# What a person can do something about comes first.
ORDER = ("approval", "event", "job", "child", "sleep")


def _awaits(step: Mapping[str, Any]) -> str:
    """What a step waits for: the review of its child's start comes before the child."""
    return "approval" if awaits_approval(step) else str(step["kind"])


def _order(step: Mapping[str, Any]) -> int:
    kind = _awaits(step)
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def _time(step: Mapping[str, Any]) -> datetime | None:
    return None if step["wake_at"] is None else datetime.fromisoformat(step["wake_at"])


def _at(step: Mapping[str, Any]) -> str:
    time = _time(step)
    return "some time" if time is None else time_in(time)
