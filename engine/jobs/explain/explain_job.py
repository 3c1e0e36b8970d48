"""Explains in one sentence why a job is not running, by the conditions of the claim itself."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.engine.explanation import Why, explained, offline, paused, said
from atlas.engine.jobs.lists.find import FOREVER
from atlas.engine.jobs.lists.newest_active import NewestWindow, find_window
from atlas.engine.jobs.switches.gate import gate_of
from atlas.engine.xmin_horizon import SLOW_DEAD_ROWS, HorizonHolder, find_holders
from atlas.errors import NotFound
from atlas.models.explain import JobExplanation, Remedy
from atlas.models.sentences import time_in

EXPLAIN = statement("engine/jobs/explain/sql/explain.sql")

# A due job that only waits for its turn is late after so long.
LATE_SECONDS = 10.0
IN_LINE = ("next", "queue", "share")


async def explain(
    conn: Queryable, job_id: UUID, *, tenant_id: UUID | None = None, window: NewestWindow | None = None
) -> JobExplanation:
    """The one reason a job is not running, or who runs it."""
    explanations = await explain_many(conn, [job_id], tenant_id=tenant_id, window=window)
    if not explanations:
        raise NotFound("job", job_id)
    return explanations[0]


async def explain_many(
    conn: Queryable, job_ids: Sequence[UUID], *, tenant_id: UUID | None = None, window: NewestWindow | None = None
) -> list[JobExplanation]:
    """The same for a page of jobs, in one statement. Jobs that do not exist are left out.

    With a `window`, which is looked for without a tenant, those ahead and those that run are counted among the newest.
    """
    if window is None and tenant_id is None:
        window = await find_window(conn)
    values = {"ids": list(job_ids), "tenant_id": tenant_id, "newest_after": None if window is None else window.after}
    rows = await conn.fetch(EXPLAIN.sql, *EXPLAIN.bind(values))
    reasons = [_why(row) for row in rows]
    late = [why.reason in IN_LINE and row["waited"] > LATE_SECONDS for row, why in zip(rows, reasons, strict=True)]
    # Who holds the horizon is for operators to see: it is a session of the whole server.
    all_holders = await find_holders(conn) if tenant_id is None and any(late) else []
    holders = [holder for holder in all_holders if not holder.catalogs_only]
    if holders and holders[0].dead_rows >= SLOW_DEAD_ROWS:
        reasons = [_slowed(why, holders[0]) if slow else why for why, slow in zip(reasons, late, strict=True)]
    return [
        explained(JobExplanation, "job", row["id"], row["status"], why) for row, why in zip(rows, reasons, strict=True)
    ]


def _why(row: Mapping[str, Any]) -> Why:
    return _waiting(row) if row["status"] == "queued" else _not_waiting(row)


def _not_waiting(row: Mapping[str, Any]) -> Why:
    command, retry = f"atlas jobs retry {row['id']}", Remedy(verb="retry", target=str(row["id"]))
    match row["status"]:
        case "running":
            runs = f"Running on worker {row['claimed_by']} since {time_in(row['started_at'])}"
            if row["cancel_requested_at"] is not None:
                return Why("stopping", f"{runs}; {row['cancel_requested_by']} requested its cancellation.")
            numbers = {"attempt": row["attempt_count"]}
            return Why("running", f"{runs} (attempt {row['attempt_count']}).", numbers=numbers)
        case "failed" if row["is_compensated"]:
            remedy = "A retry is refused. Fork it from its first step, or request a new run."
            show, run = f"atlas workflow show {row['id']}", Remedy(verb="open_run", target=str(row["id"]))
            message = f"Failed and undid its steps: {said(row['error_message'])}"
            return Why("compensated", message, remedy, show, action=run)
        case "failed" if row["dead_lettered_at"] is None:
            message = f"Failed permanently: {said(row['error_message'])}"
            return Why("failed", message, "Retry it when the cause is fixed.", command, action=retry)
        case "failed":
            attempts = "1 attempt" if row["attempt_count"] == 1 else f"{row['attempt_count']} attempts"
            message = f"Dead-lettered after {attempts}: {said(row['error_message'])}"
            numbers = {"attempts": row["attempt_count"]}
            return Why("dead_letter", message, "Retry it when the cause is fixed.", command, numbers, retry)
        case "succeeded":
            return Why("succeeded", f"Succeeded at {time_in(row['finished_at'])}.")
        case _ if row["is_expired"]:
            remedy = "Retry it to run it anyway: a retry has no deadline."
            return Why("expired", f"Expired: not started by {time_in(row['start_by'])}.", remedy, command, action=retry)
        case _:
            cause = f"Canceled at {time_in(row['finished_at'])}."
            return Why("canceled", cause, "Retry it to run it anyway.", command, action=retry)


def _waiting(row: Mapping[str, Any]) -> Why:
    """The first condition that fails, in the order of the claim."""
    gate = gate_of(row["gate"])
    if not gate.online:
        return offline(gate)
    if row["pause"] is not None:
        return paused(orjson.loads(row["pause"]))
    if row["held_ahead"] is not None:
        return _held(row)
    if row["due_at"] is not None and row["doubt"] is not None:
        return _in_doubt(orjson.loads(row["doubt"]))
    if row["due_at"] is not None and row["waits"] is not None:
        return _awaiting(row, orjson.loads(row["waits"]))
    if row["due_at"] is not None:
        numbers = {"failed_attempts": row["retry_count"]}
        return Why("not_due", f"{_next(row)} {time_in(row['due_at'])}{_after_failures(row)}.", numbers=numbers)
    if row["disabled"]:
        command = f"atlas definition edit {row['job_type']} --enable"
        cause = f"The definition {row['job_type']} is disabled."
        return Why("disabled", cause, "Enable it.", command, action=_edit_type(row))
    if row["host_id"] is not None:
        remedy = "Check that `atlas agent` runs there."
        return Why("host", f"Waiting for host {row['host_id']} to fetch it.", remedy, "atlas host list")
    if row["workers"] == 0:
        return _no_worker(row)
    return _limited(row) or _in_line(row)


def _held(row: Mapping[str, Any]) -> Why:
    """By the concurrency of its key, or by a rate."""
    whose = f"{row['job_type']} jobs" if row["held_by_type"] else f"jobs of tenant {row['tenant']}"
    key = f" of {row['limit_key']}" if row["held_by_type"] and row["limit_key"] is not None else ""
    ahead = row["held_ahead"]
    before = f"; {'1,000 or more' if ahead >= 1000 else ahead} of them {'is' if ahead == 1 else 'are'} ahead of it"
    if row["held_most"] is not None and row["held_slots"] >= row["held_most"]:
        cause = f"{row['held_slots']} of at most {row['held_most']} {whose}{key} run{before if ahead else ''}."
        numbers = {"running": row["held_slots"], "limit": row["held_most"], "ahead": ahead}
        action = _edit_type(row) if row["held_by_type"] else _edit_tenant(row)
        return Why("limit", cause, "It starts when one of them finishes. Or raise the limit.", None, numbers, action)
    if row["held_rate"] is not None and row["held_until"] is not None:
        cause = (
            f"Throttled by the rate {row['held_rate']} of {whose}{key}; it can start at {time_in(row['held_until'])}."
        )
        action = _edit_type(row) if row["held_by_type"] else _edit_tenant(row)
        return Why("rate", cause, "Wait, or raise the rate.", None, {"ahead": ahead}, action)
    if row["workers"] == 0 and row["host_id"] is None:
        return _no_worker(row)
    return Why("next", "Its limit has room; the next claim takes it.", numbers={"ahead": ahead})


def _limited(row: Mapping[str, Any]) -> Why | None:
    for whose, running, limit, action in (
        (f"{row['job_type']} jobs", row["type_running"], row["type_limit"], _edit_type(row)),
        ("jobs of this tenant", row["tenant_running"], row["tenant_limit"], _edit_tenant(row)),
    ):
        if limit is not None and running >= limit:
            remedy = "It starts when one of them finishes. Or raise the limit."
            numbers = {"running": running, "limit": limit}
            cause = f"{running} of at most {limit} {whose} are running."
            return Why("limit", cause, remedy, None, numbers, action)
    return None


def _edit_tenant(row: Mapping[str, Any]) -> Remedy:
    return Remedy(verb="edit_tenant", target=row["tenant"])


def _edit_type(row: Mapping[str, Any]) -> Remedy | None:
    """The limits of a definition are stored; those of other types are in the code of workers."""
    return Remedy(verb="edit_definition", target=row["job_type"]) if row["is_definition"] else None


def _in_line(row: Mapping[str, Any]) -> Why:
    if row["alone"]:
        lost = f"Its worker was lost {row['lost_count']} times, so it runs alone"
        cause = f"{lost}: a worker that serves {row['job_type']} claims it when it holds no other job."
        command = f"atlas audit tail --entity {row['id']}"
        return Why("alone", cause, "Find out why its workers died.", command, {"lost": row["lost_count"]})
    if row["ahead"]:
        many = f"{row['ahead']}" if row["ahead"] < 1000 else "1,000 or more"
        ahead = f"{many} {row['job_type']} jobs of its tenant are ahead of it by priority or age."
        cause = f"{ahead} {_share(row)}".strip()
        remedy = "Start more workers, or raise their --concurrency."
        command = f"atlas worker --types {row['job_type']}"
        return Why("queue", cause, remedy, command, {"ahead": row["ahead"]} | _share_numbers(row))
    if row["tenants_before"]:
        remedy = "Raise its weight, or start more workers."
        return Why("share", _share(row), remedy, None, _share_numbers(row), _edit_tenant(row))
    return Why("next", "Nothing holds it: a worker will claim it next.")


def _slowed(why: Why, holder: HorizonHolder) -> Why:
    """It waits longer than usual, because claims pass over dead rows that Postgres cannot remove."""
    numbers = {**why.numbers, "dead_rows": holder.dead_rows, "held_seconds": int(holder.seconds)}
    cause = f"{why.sentence} Dead rows slow claims down: {holder.what} since {time_in(holder.since)}."
    return Why("horizon", cause, holder.remedy, numbers=numbers)


def _share(row: Mapping[str, Any]) -> str:
    """How its tenant stands among those that compete for the workers of its type."""
    if row["tenant_share"] is None:
        return ""
    before = row["tenants_before"]
    after = "it is next" if not before else f"it is next after {before} {'other' if before == 1 else 'others'}"
    used = f"Tenant {row['tenant']} has used {row['tenant_used'] or 0} % of the worker time of the last minute"
    return f"{used}, its share is {row['tenant_share']} %; {after}."


def _share_numbers(row: Mapping[str, Any]) -> dict[str, int]:
    if row["tenant_share"] is None:
        return {}
    used = row["tenant_used"] or 0
    return {"used_percent": used, "share_percent": row["tenant_share"], "tenants_before": row["tenants_before"]}


def _in_doubt(effect: Mapping[str, Any]) -> Why:
    """It is unknown whether the provider carried out the call of the job."""
    cause = f"Waiting for a person: was {effect['name']} {effect['key']} made?"
    remedy = "Ask the provider, then settle it: it was made, with the provider's reference, or it was not."
    action = Remedy(verb="settle_effect", target=effect["id"])
    return Why("effect", cause, remedy, f"atlas effects show {effect['id']}", action=action)


def _awaiting(row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Why:
    cause = f"The run waits for {' and '.join(map(awaited, steps))}{until(row['due_at'], steps)}."
    return Why("waiting", cause, None, f"atlas explain {row['id']}", {"steps": len(steps)})


def awaited(step: Mapping[str, Any]) -> str:
    """What a step of a run waits for."""
    match step["kind"]:
        case "event":
            match = step.get("event_match")
            return f"event {step['event_name']}" + (f" with {orjson.dumps(match).decode()}" if match else "")
        case "approval":
            return f'approval "{step["name"]}"'
        case "child" if awaits_approval(step):
            return f'approval to start "{step["name"]}"'
        case "job" | "child":
            return f'"{step["name"]}", which is {"job" if step["kind"] == "job" else "run"} {step["child_id"]}'
        case _:
            return f'{step["kind"]} "{step["name"]}"'


def until(due_at: Any, steps: Sequence[Mapping[str, Any]]) -> str:
    """The end of a wait, unless it has none."""
    if due_at is None or due_at.year == FOREVER:
        return ""
    return f" ({'expires at' if all(map(awaits_approval, steps)) else 'until'} {time_in(due_at)})"


def awaits_approval(step: Mapping[str, Any]) -> bool:
    """Whether a step waits for a decision: its own, or the review of its child's start."""
    is_reviewed = step["kind"] == "child" and step["child_id"] is None and step.get("approval_id") is not None
    return step["kind"] == "approval" or is_reviewed


def _no_worker(row: Mapping[str, Any]) -> Why:
    if not row["known_type"]:
        cause = f"No worker has ever served the job type {row['job_type']!r}."
        return Why("no_worker", cause, "Start a worker whose --app registers it.")
    cause = f"No live worker serves the job type {row['job_type']!r}."
    return Why("no_worker", cause, "Start a worker.", f"atlas worker --types {row['job_type']}")


def _next(row: Mapping[str, Any]) -> str:
    return "Scheduled for" if row["retry_count"] == 0 else "Next attempt at"


def _after_failures(row: Mapping[str, Any]) -> str:
    if row["retry_count"] == 0:
        return ""
    attempts = "attempt" if row["retry_count"] == 1 else "attempts"
    return f", after {row['retry_count']} failed {attempts} of at most {row['max_retries'] + 1}"
