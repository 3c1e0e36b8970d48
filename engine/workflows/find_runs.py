"""Reading runs and their steps."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, get_args
from uuid import UUID

import orjson

from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Queryable
from atlas.db.prisma import page_filter, prisma_on
from atlas.db.statements import fetch, statement
from atlas.engine.workflows.rows import check_status
from atlas.models.rows import from_row, from_rows
from atlas.models.workflows import RunCounts, RunStatus, RunStep, WorkflowRun

if TYPE_CHECKING:
    import asyncpg

    from atlas.generated.types import WorkflowRunStateWhereInput

STEPS = statement("engine/workflows/sql/list_steps.sql")
PENDING_APPROVALS = statement("engine/workflows/sql/pending_approvals.sql")
SUMMARY = statement("engine/workflows/sql/summarize_runs.sql")

RUN_STATUSES = get_args(RunStatus)
# Where a step is in the order of its run's steps: its start, its branch, and its position there.
StepPosition: TypeAlias = tuple[datetime, str, int]


async def get_run(conn: Queryable, run_id: UUID, *, tenant_id: UUID | None = None) -> WorkflowRun | None:
    """One run, or None if there is none, or none in that tenant."""
    rows = await list_runs(conn, id=run_id, tenant_id=tenant_id, limit=1)
    return rows[0] if rows else None


async def list_runs(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    workflow: str | None = None,
    status: str | None = None,
    parent_run_id: UUID | None = None,
    after: UUID | None = None,
    limit: int = 50,
) -> list[WorkflowRun]:
    """Runs, newest first."""
    check_status(status, RUN_STATUSES)
    columns: dict[str, Any] = {"workflow": workflow, "status": status, "parent_run_id": parent_run_id}
    where: WorkflowRunStateWhereInput = page_filter(tenant_id=tenant_id, id=id, before=after, **columns)
    rows = await prisma_on(conn).workflowrunstate.find_many(
        min(limit, MAX_PAGE_SIZE), where=where, order={"id": "desc"}
    )
    runs = from_rows(WorkflowRun, rows)
    waiting = [run.id for run in runs if run.status == "waiting"]
    if not waiting:
        return runs
    expires = {row["run_id"]: row["expires_at"] for row in await fetch(conn, PENDING_APPROVALS, ids=waiting)}
    return [run.model_copy(update={"approval_expires_at": expires.get(run.id)}) for run in runs]


async def summarize_runs(conn: Queryable, *, tenant_id: UUID | None = None) -> list[RunCounts]:
    """The newest 1,000 runs, counted by workflow and version."""
    return from_rows(RunCounts, await fetch(conn, SUMMARY, tenant_id=tenant_id))


async def list_steps(
    conn: Queryable,
    run_id: UUID,
    *,
    key: str | None = None,
    after: StepPosition | None = None,
    limit: int | None = None,
    whole: bool = True,
) -> list[RunStep]:
    """The steps of a run, in the order in which they began; with `limit`, one page of them; with a key, that step.

    Where they need not be `whole`, they have no inputs and outputs.
    """
    started_at, branch, position = after or (None, None, None)
    place = {"started_at": started_at, "branch": branch, "position": position}
    values = {"run_id": run_id, "key": key, **place, "limit": limit, "whole": whole}
    rows = await conn.fetch(STEPS.sql, *STEPS.bind(values))
    return [from_row(RunStep, row, key=_key(row["branch"], row["name"]), waits_for=_waits_for(row)) for row in rows]


def _key(branch: str, name: str) -> str:
    # A declared step is alone in a branch of its own name.
    return name if branch == f"{name}/" else f"{branch}{name}"


def _waits_for(step: "asyncpg.Record") -> str | None:
    """What a step that is not done waits for, as text."""
    wake_at, approval_id = step["wake_at"], step["approval_id"]
    until = "" if wake_at is None else f" until {wake_at:%Y-%m-%d %H:%M:%S} UTC"
    if step["status"] == "retrying":
        return f"its next attempt at {wake_at:%Y-%m-%d %H:%M:%S} UTC"
    if step["status"] != "waiting":
        return None
    match step["kind"]:
        case "sleep":
            return f"{wake_at:%Y-%m-%d %H:%M:%S} UTC"
        case "event":
            match = orjson.loads(step["event_match"] or "{}")
            return f"an event {step['event_name']!r}{f' with {match}' if match else ''}{until}"
        case "approval":
            return f"approval {approval_id}{until}"
        case "child" if step["child_id"] is None and approval_id is not None:
            return f"approval {approval_id} of its start{until}"
        case kind:
            child = f"{'run' if kind == 'child' else 'job'} {step['child_id']}"
            return f"{child} ({step['child_status'] or 'deleted'}){until}"
