"""Routes for one worker process: what it runs, and draining it."""

from typing import Annotated

from fastapi import APIRouter, Path

from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.jobs.explain.explain_worker import explain_worker
from atlas.engine.jobs.lease import request_drain
from atlas.errors import NotFound
from atlas.models.explain import WorkerExplanation
from atlas.models.rows import from_row, from_rows
from atlas.models.system import WorkerDetails, WorkerJob

router = APIRouter(prefix=f"{PREFIX}/workers", route_class=GuardedRoute, tags=["workers"])

FIND = statement("api/resources/workers/sql/find_worker.sql")
JOBS = statement("api/resources/workers/sql/worker_jobs.sql")

WorkerId = Annotated[str, Path(min_length=1, max_length=400)]


@router.get("/{worker_id}", operation_id="get_worker", summary="One worker process and its jobs")
@requires("operator", "auditor", whole=True)
async def show_one(worker_id: WorkerId, call: Calling) -> WorkerDetails:
    """Of all tenants. `running_count` is from its last heartbeat, the jobs are those of now."""
    async with call.transaction(read_only=True) as conn:
        return await _details(conn, worker_id)


@router.get(
    "/{worker_id}/explain", operation_id="explain_worker", summary="Why a worker takes nothing, in one sentence"
)
@requires("operator", "auditor", whole=True)
async def show_explanation(worker_id: WorkerId, call: Calling) -> WorkerExplanation:
    """The gate, its lease, a drain, its slots, or what is due for it and for others, and the way out."""
    async with call.transaction(read_only=True) as conn:
        return await explain_worker(conn, worker_id)


@router.post("/{worker_id}/drain", operation_id="drain_worker", summary="Let a worker finish what it runs, and stop")
@requires("operator", whole=True)
async def drain(worker_id: WorkerId, call: Calling) -> WorkerDetails:
    """It claims no more jobs, finishes its jobs, however long they take, and then the process ends.

    What started the process may start another in its place, as `atlas up` does. To stop all work, go offline.
    """
    async with call.transaction() as conn:
        await request_drain(conn, worker_id, actor=call.actor)
        return await _details(conn, worker_id)


async def _details(conn: Connection, worker_id: str) -> WorkerDetails:
    row = await fetch_row(conn, FIND, worker_id=worker_id)
    if row is None:
        raise NotFound("worker", worker_id)
    jobs = await fetch(conn, JOBS, worker_id=worker_id, limit=MAX_PAGE_SIZE)
    return from_row(WorkerDetails, row, jobs=from_rows(WorkerJob, jobs))
