"""Explains in one sentence why a worker takes no job, by the conditions of the claim itself."""

from collections.abc import Mapping
from typing import Any

from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.explanation import Why, explained, offline
from atlas.engine.jobs.lists.find import FOREVER
from atlas.engine.jobs.switches.gate import gate_of
from atlas.errors import NotFound
from atlas.models.explain import WorkerExplanation
from atlas.models.sentences import time_in

EXPLAIN = statement("engine/jobs/explain/sql/explain_worker.sql")

START = "atlas worker --all"


async def explain_worker(conn: Connection, worker_id: str) -> WorkerExplanation:
    """The one reason a worker takes nothing now, or what it does."""
    row = await fetch_row(conn, EXPLAIN, worker_id=worker_id)
    if row is None:
        raise NotFound("worker", worker_id, remedy="`atlas status` lists the workers.")
    is_alive = row["dead_at"] is None and row["has_lease"]
    status = "ended" if not is_alive else "draining" if row["drain_requested_at"] is not None else "alive"
    return explained(WorkerExplanation, "worker", worker_id, status, _why(row))


def _why(row: Mapping[str, Any]) -> Why:
    """The first condition that fails, in the order of the claim."""
    if row["dead_at"] is not None and row["lease_expires_at"] > row["dead_at"]:
        return Why("ended", f"Stopped gracefully at {time_in(row['dead_at'])}.", "Start another worker.", START)
    if row["dead_at"] is not None or not row["has_lease"]:
        cause = f"Lost its lease at {time_in(row['lease_expires_at'])}, last seen at {time_in(row['last_seen_at'])}"
        return Why("lease_lost", f"{cause}; its jobs run elsewhere.", "Check its log, and start another worker.", START)
    if row["drain_requested_at"] is not None:
        since = f"Draining since {time_in(row['drain_requested_at'])}, requested by {row['drain_requested_by']}"
        cause = f"{since}. It exits when its running jobs have finished: {row['running']}."
        return Why("draining", cause, "Start another worker.", START, {"running": row["running"]})
    gate = gate_of(row["gate"])
    if not gate.online:
        return offline(gate)
    return _busy(row) or _nothing_for_it(row)


def _busy(row: Mapping[str, Any]) -> Why | None:
    running, slots = row["running"], row["concurrency"]
    if running == 0:
        return None
    numbers = {"running": running, **({} if slots is None else {"concurrency": slots})}
    if slots is not None and running >= slots:
        cause = f"All {slots} slots are in use."
        return Why("full", cause, "Start more workers, or raise --concurrency.", START, numbers)
    jobs = f"{running} {'job' if running == 1 else 'jobs'}"
    return Why("busy", f"Running {jobs}{'' if slots is None else f' in {slots} slots'}.", numbers=numbers)


def _nothing_for_it(row: Mapping[str, Any]) -> Why:
    if row["ready"]:
        many = _many(row["ready"])
        cause = f"Idle; {many} of its types {'is' if row['ready'] == 1 else 'are'} due, and claimed next."
        return Why("next", cause, numbers={"ready": row["ready"]})
    if row["paused"]:
        cause = f"{_many(row['paused'])} of its types {'is' if row['paused'] == 1 else 'are'} due but paused."
        return Why("paused", cause, "Resume them.", "atlas pauses", {"paused": row["paused"]})
    if row["limited"]:
        numbers = {"held": row["limited"], "alone": row["alone"]}
        cause = f"{_many(row['limited'])} of its types {'is' if row['limited'] == 1 else 'are'} due but throttled:"
        cause += (
            " by a limit of the type or tenant, by code that only other workers have, or because it must run alone."
        )
        return Why("limited", cause, "Explain one of them.", "atlas jobs list --status queued", numbers)
    serves = f"Serves {_named(row['job_types'])}; none of these jobs is due"
    if row["of_others"]:
        others = f"{_many(row['of_others'])} of other types ({', '.join(row['other_types'])})"
        command = f"atlas worker --types {','.join(row['other_types'])}"
        wait = "waits" if row["of_others"] == 1 else "wait"
        return Why(
            "other_types",
            f"{serves}; {others} {wait}.",
            "Start a worker that serves them.",
            command,
            {"due": row["of_others"]},
        )
    if row["for_hosts"]:
        wait = "waits for a host" if row["for_hosts"] == 1 else "wait for hosts"
        cause = f"{serves}; {_many(row['for_hosts'])} {wait}, whose agents fetch them."
        return Why("host_only", cause, "Check that the agents run.", "atlas host list", {"due": row["for_hosts"]})
    later = row["next_due_at"]
    then = "." if later is None or later.year == FOREVER else f"; the next is due at {time_in(later)}."
    return Why("nothing_due", f"{serves}{then}")


def _many(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs" if count < 1000 else "1,000 jobs or more"


def _named(types: list[str]) -> str:
    if not types:
        return "every type"
    return ", ".join(types[:3]) + (f" and {len(types) - 3} more" if len(types) > 3 else "")
