"""Explains in one sentence why a job is not running, by the conditions of the claim itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.engine.jobs.gate import gate_of
from atlas.errors import NotFound

EXPLAIN = statement("engine/jobs/sql/explain.sql")

# The year of a due time that means: without an end.
FOREVER = 9999


@dataclass(frozen=True, slots=True)
class Explanation:
    """`reason` is a stable word for programs, `sentence` the explanation for people."""

    job_id: UUID
    status: str
    reason: str
    sentence: str


async def explain(conn: Queryable, job_id: UUID, *, tenant_id: UUID | None = None) -> Explanation:
    """The one reason a job is not running, or who runs it."""
    found = await explain_many(conn, [job_id], tenant_id=tenant_id)
    if not found:
        raise NotFound("job", job_id)
    return found[0]


async def explain_many(conn: Queryable, job_ids: Sequence[UUID], *, tenant_id: UUID | None = None) -> list[Explanation]:
    """The same for a page of jobs, in one statement. Jobs that do not exist are left out."""
    rows = await conn.fetch(EXPLAIN.sql, *EXPLAIN.bind({"ids": list(job_ids), "tenant_id": tenant_id}))
    return [_explained(row) for row in rows]


def _explained(row: Mapping[str, Any]) -> Explanation:
    reason, sentence = _waiting(row) if row["status"] == "queued" else _not_waiting(row)
    return Explanation(row["id"], row["status"], reason, sentence)


def _not_waiting(row: Mapping[str, Any]) -> tuple[str, str]:
    if row["status"] == "running":
        runs = f"Worker {row['claimed_by']} runs it since {row['started_at']:%Y-%m-%d %H:%M:%S} UTC"
        if row["cancel_requested_at"] is not None:
            return "stopping", f"{runs}; {row['cancel_requested_by']} asked it to stop."
        return "running", f"{runs} (attempt {row['attempt_count']})."
    if row["status"] == "failed":
        message = (row["error_message"] or "no message was recorded").rstrip()
        message += "" if message.endswith((".", "!", "?")) else "."
        if row["dead_lettered_at"] is None:
            return "failed", f"It failed for good: {message}"
        attempts = "one attempt" if row["attempt_count"] == 1 else f"{row['attempt_count']} attempts"
        return "dead_letter", f"It is a dead letter after {attempts}: {message} Retry it by hand."
    return row["status"], f"It {row['status']} at {row['finished_at']:%Y-%m-%d %H:%M:%S} UTC."


def _waiting(row: Mapping[str, Any]) -> tuple[str, str]:
    """The first condition that fails, in the order of the claim."""
    gate = gate_of(row["gate"])
    if not gate.online:
        return "gate", gate.closed_because
    if row["due_at"] is not None and row["waits"] is not None:
        return "waiting", f"Its run waits for {' and '.join(map(_awaited, orjson.loads(row['waits'])))}{_until(row)}."
    if row["due_at"] is not None:
        return "not_due", f"It is not due until {row['due_at']:%Y-%m-%d %H:%M:%S} UTC{_after_failures(row)}."
    if row["disabled"]:
        return "disabled", f"The definition {row['job_type']} is disabled. An operator can make it active again."
    if row["host_id"] is not None:
        return "host", f"It waits for host {row['host_id']} to fetch it."
    if row["workers"] == 0:
        return "no_worker", _no_worker(row)
    if row["type_limit"] is not None and row["type_running"] >= row["type_limit"]:
        return "limit", f"{row['type_running']} of at most {row['type_limit']} {row['job_type']} jobs are running."
    if row["tenant_limit"] is not None and row["tenant_running"] >= row["tenant_limit"]:
        return "limit", f"{row['tenant_running']} of at most {row['tenant_limit']} jobs of this tenant are running."
    if row["alone"]:
        lost = f"It was lost {row['lost_count']} times and runs alone"
        return "alone", f"{lost}: a worker that serves {row['job_type']} takes it once it holds nothing else."
    if row["ahead"]:
        many = f"{row['ahead']}" if row["ahead"] < 1000 else "1,000 or more"
        return "queue", f"{many} {row['job_type']} jobs of higher priority or age are ahead of it."
    return "next", "Nothing holds it: a worker will claim it next."


def _awaited(step: Mapping[str, Any]) -> str:
    match step["kind"]:
        case "event":
            return f"the event {step['event_name']}"
        case "approval":
            return f"the approval {step['name']!r}"
        case "job" | "child":
            return f"{step['name']!r}, which is {'job' if step['kind'] == 'job' else 'run'} {step['child_id']}"
        case _:
            return f"the {step['kind']} {step['name']!r}"


def _until(row: Mapping[str, Any]) -> str:
    """The end of a wait, unless it has none."""
    return "" if row["due_at"].year == FOREVER else f", until {row['due_at']:%Y-%m-%d %H:%M:%S} UTC at the latest"


def _no_worker(row: Mapping[str, Any]) -> str:
    if not row["known_type"]:
        return f"No worker has ever served the job type {row['job_type']!r}. Start one whose --app registers it."
    return f"No worker that serves {row['job_type']!r} is alive. Start one with `atlas worker`."


def _after_failures(row: Mapping[str, Any]) -> str:
    if row["retry_count"] == 0:
        return ""
    return f", after {row['retry_count']} failed attempts of at most {row['max_retries'] + 1}"
