"""Suspends runs, so that no wake-up is lost.

What may wake a run is locked out first: the job row, which a child's end and a decision lock before they wake it, and
the names of the events it waits for, which publishers hold. Then the waits are stored, with the children and questions
that belong to them. The next statement sees everything that was committed before the locks. It looks for the awaited
events, approvals and children; the run is queued until its time, or immediately if one of them has come. What comes
later finds the run queued and wakes it.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.retried_commit import DatabaseBusy
from atlas.db.statements import fetch, statement
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.policy.judge import load_policy
from atlas.engine.workflows.start_runs import ENGINE, NewRun, start_runs
from atlas.engine.workflows.steps.history import NewApproval, Suspension, Wait
from atlas.ids import new_id

HOLD = statement("engine/workflows/sql/hold_runs.sql")
SETTLE = statement("engine/workflows/sql/settle_runs.sql")
STORED = statement("engine/workflows/sql/stored_waits.sql")
INSERT_WAITS = statement("engine/workflows/sql/insert_waits.sql")
ASK = statement("engine/workflows/sql/ask_approvals.sql")


async def suspend_runs(
    conn: Connection, suspensions: Sequence[Suspension], is_repeated: bool = False, *, worker_id: str
) -> list[str]:
    """Suspend many runs in one transaction; for each: held, lost, or canceled (it was asked to stop).

    `is_repeated`: some of them may have been suspended before, by a call whose response was lost.
    """
    # A run may come several times: each of its branches stores its own waits while the others go on.
    ordered = sorted(
        {suspension.run_id: suspension for suspension in suspensions}.values(),
        key=lambda suspension: suspension.run_id.bytes,
    )
    keys = [
        (suspension.run_id, f"{suspension.tenant_id} {name}")
        for suspension in suspensions
        for name in suspension.event_names
    ]
    async with conn.transaction():
        # Before the rows are held, as by those who decide about requests.
        refused = await _refused(conn, suspensions)
        rows = await fetch(
            conn,
            HOLD,
            worker=worker_id,
            runs=[suspension.run_id for suspension in ordered],
            attempts=[suspension.attempt for suspension in ordered],
            event_runs=[run_id for run_id, _ in keys] or None,
            event_keys=[key for _, key in keys] or None,
        )
        verdicts = {row["id"]: row["verdict"] for row in rows}
        if "busy" in verdicts.values():
            raise DatabaseBusy
        certain = {row["id"]: row["certain"] for row in rows}
        held = [suspension for suspension in suspensions if verdicts[suspension.run_id] == "held"]
        waits = [(suspension, wait) for suspension in held for wait in suspension.waits if id(wait) not in refused]
        # The rows are held: what the lost call stored is committed by now, or never will be.
        await _store(conn, await _not_stored(conn, waits) if is_repeated else waits)
        leaving = [suspension for suspension in held if not suspension.stays]
        if leaving:
            await fetch(
                conn,
                SETTLE,
                runs=[suspension.run_id for suspension in leaving],
                certain=[certain[suspension.run_id] for suspension in leaving],
                at_once=[suspension.at_once for suspension in leaving],
            )
    return [verdicts[suspension.run_id] for suspension in suspensions]


async def _refused(conn: Connection, suspensions: Sequence[Suspension]) -> set[int]:
    """The waits, by identity, whose child a counting rule no longer lets start. Their runs are replayed immediately.

    Others may have started as many as the rule allows since the step was judged. The replay judges and fails the step.
    """
    counted = [
        (run, wait, (run.tenant_id, wait.child.workflow))
        for run in suspensions
        for wait in run.waits
        if wait.child is not None and wait.child.is_counted
    ]
    if not counted:
        return set()
    policy = await load_policy(conn, [start for _, _, start in counted])
    refused: set[int] = set()
    for run, wait, start in counted:
        if policy.judge(*start).effect == "allow":
            policy.count(*start, 0)
        else:
            run.at_once = True
            refused.add(id(wait))
    return refused


async def _not_stored(conn: Connection, waits: list[tuple[Suspension, Wait]]) -> list[tuple[Suspension, Wait]]:
    """The waits that are not stored yet: the children and questions of the others exist already."""
    rows = await fetch(
        conn,
        STORED,
        runs=[run.run_id for run, _ in waits],
        branches=[wait.branch for _, wait in waits],
        positions=[wait.position for _, wait in waits],
    )
    stored = {(row["run_id"], row["branch"], row["position"]): row["has_child"] for row in rows}

    def is_stored(run: Suspension, wait: Wait) -> bool:
        # A step that waits for the approval of its child's start has a row before it has a child.
        has_child = stored.get((run.run_id, wait.branch, wait.position))
        return has_child is not None and (has_child or wait.child is None)

    return [(run, wait) for run, wait in waits if not is_stored(run, wait)]


async def _store(conn: Connection, waits: list[tuple[Suspension, Wait]]) -> None:
    if not waits:
        return
    children = [_child_of(run, wait) for run, wait in waits]
    jobs = [child for child in children if isinstance(child, NewJob)]
    runs = [child for child in children if isinstance(child, NewRun)]
    asked = [(new_id(), run, wait, wait.approval) for run, wait in waits if wait.approval is not None]
    if jobs:
        await enqueue_many(conn, jobs, actor=ENGINE)
    if runs:
        await start_runs(conn, runs)
    if asked:
        await _ask(conn, asked)
    approvals = {id(wait): approval_id for approval_id, _, wait, _ in asked}
    await fetch(
        conn,
        INSERT_WAITS,
        children=[None if child is None else child.id for child in children],
        approvals=[approvals.get(id(wait)) for _, wait in waits],
        **_columns(waits),
    )


def _child_of(run: Suspension, wait: Wait) -> NewJob | NewRun | None:
    """The job or run that a wait is for."""
    if wait.child is None:
        return wait.job
    return NewRun(
        run.tenant_id,
        wait.child.workflow,
        wait.child.input,
        run.requested_by,
        source_ref=str(run.run_id),
        correlation_id=run.correlation_id,
        parent_run_id=run.run_id,
        depth=run.depth + 1,
        document=wait.child.document,
    )


def _columns(waits: list[tuple[Suspension, Wait]]) -> dict[str, list[Any]]:
    return {
        "runs": [run.run_id for run, _ in waits],
        "tenants": [run.tenant_id for run, _ in waits],
        "branches": [wait.branch for _, wait in waits],
        "positions": [wait.position for _, wait in waits],
        "names": [wait.name for _, wait in waits],
        "kinds": [wait.kind for _, wait in waits],
        "statuses": [wait.status for _, wait in waits],
        "attempts": [wait.attempts for _, wait in waits],
        "wake_ats": [wait.wake_at for _, wait in waits],
        "wake_afters": [wait.wake_after for _, wait in waits],
        "event_names": [wait.event_name for _, wait in waits],
        "event_matches": [wait.event_match for _, wait in waits],
        "inputs": [wait.input for _, wait in waits],
        "errors": [wait.error for _, wait in waits],
    }


async def _ask(conn: Connection, asked: list[tuple[UUID, Suspension, Wait, NewApproval]]) -> None:
    await fetch(
        conn,
        ASK,
        ids=[approval_id for approval_id, *_ in asked],
        tenants=[run.tenant_id for _, run, _, _ in asked],
        runs=[run.run_id for _, run, _, _ in asked],
        steps=[f"{wait.branch}{wait.name}" for _, _, wait, _ in asked],
        titles=[question.title for *_, question in asked],
        details=[question.detail for *_, question in asked],
        requesters=[run.requested_by for _, run, _, _ in asked],
        expires=[question.expires for *_, question in asked],
        subjects=[question.subject for *_, question in asked],
    )
