"""Worker leases: one row, renewed by heartbeats, is the lease of every job that a worker runs.

A worker registers under a new id and renews its row while the lease lasts. Once the lease has expired, a heartbeat
changes nothing; the worker is dead for good and has to register again under another id. Outcomes are fenced by the row:
those of a dead worker are refused. The reaper marks a worker whose lease expired as dead and takes its jobs back. It
holds the worker's advisory lock exclusively meanwhile, and every claim of that worker holds it shared, so that no claim
commits in between. Any number of workers and schedulers may reap at the same time.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import orjson

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, retry_deadlocks, statement
from atlas.errors import Conflict, NotFound
from atlas.version import __version__

REGISTER = statement("engine/jobs/sql/register_worker.sql")
HEARTBEAT = statement("engine/jobs/sql/heartbeat.sql")
HEARTBEAT_JOB = statement("engine/jobs/sql/heartbeat_job.sql")
SERVE = statement("engine/jobs/sql/serve_types.sql")
DRAIN = statement("engine/jobs/sql/drain_worker.sql")
RETIRE = statement("engine/jobs/sql/retire_worker.sql")
REAP = statement("engine/jobs/sql/reap.sql")
HELD = statement("engine/jobs/sql/held.sql")
CANCELED = statement("engine/jobs/sql/canceled.sql")
UNDONE = statement("engine/jobs/sql/undone.sql")
EXPIRE = statement("engine/jobs/sql/expire.sql")
PROMOTE = statement("engine/jobs/sql/promote.sql")

REAP_BATCH = 500


class Renewal(NamedTuple):
    """A lease that was renewed, and whether the worker was asked to drain."""

    is_draining: bool


class ReapedJob(NamedTuple):
    """A job that was taken back. The verdict is requeued, poisoned or canceled."""

    id: UUID
    worker_id: str
    verdict: str
    tenant_id: UUID
    job_type: str
    attempt: int


def new_worker_id() -> str:
    """`host:pid:uuid`, never the same twice."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4()}"


async def register_worker(
    conn: Connection,
    worker_id: str,
    *,
    lease: float,
    job_types: Sequence[str],
    metadata: Mapping[str, Any] | None = None,
    key: bytes | None = None,
) -> None:
    """Insert the row of a new worker, with a lease, and the key that its attempts are committed with."""
    await fetch(
        conn,
        REGISTER,
        worker=worker_id,
        hostname=socket.gethostname(),
        version=__version__,
        job_types=list(job_types),
        lease=lease,
        metadata=orjson.dumps(metadata or {}).decode(),
        key=key,
    )


async def heartbeat(conn: Connection, worker_id: str, *, lease: float, running: int) -> Renewal | None:
    """Renew a worker's lease. None: it has expired, and what the worker holds is not its own any more."""
    row = await fetch_row(conn, HEARTBEAT, worker=worker_id, lease=lease, running=running)
    return None if row is None else Renewal(row["is_draining"])


async def request_drain(conn: Connection, worker_id: str, *, actor: Actor) -> None:
    """Ask a worker to take nothing new and to stop when it is idle. A second call changes nothing."""
    async with conn.transaction():
        row = await fetch_row(conn, DRAIN, worker=worker_id, by=actor.id)
        if row is None:
            raise NotFound("worker", worker_id, remedy="`atlas status` lists the workers.")
        if not row["is_alive"]:
            raise Conflict(f"The worker {worker_id} has ended.", remedy="There is nothing to drain.")
        if row["is_new"]:
            await record(conn, Event("WORKER_DRAIN_REQUESTED", "worker", worker_id, actor))


async def heartbeat_job(conn: Connection, claimant: str, job_id: UUID, attempt: int, *, lease: float) -> bool | None:
    """Renew the lease of one job that carries its own. True: it was asked to stop. None: the lease was lost."""
    asked: bool | None = await fetch_value(
        conn, HEARTBEAT_JOB, claimant=claimant, job_id=job_id, attempt=attempt, lease=lease
    )
    return asked


async def serve_types(conn: Connection, worker_id: str, job_types: Sequence[str]) -> None:
    """Record which types a worker serves from now on."""
    await fetch(conn, SERVE, worker=worker_id, job_types=list(job_types))


async def retire_worker(conn: Connection, worker_id: str) -> None:
    """End a worker's lease. What it might still hold goes back to the queue at the next sweep."""
    await fetch(conn, RETIRE, worker=worker_id)


async def reap(conn: Connection, *, limit: int = REAP_BATCH) -> list[ReapedJob]:
    """Take back jobs whose lease expired, at most `limit` per worker."""
    return [ReapedJob(*row) for row in await fetch(conn, REAP, limit=limit)]


async def held(conn: Connection, worker_id: str) -> list[tuple[UUID, int]]:
    """The jobs (id, attempt) that this worker holds according to the database."""
    return [(row["id"], row["attempt_count"]) for row in await fetch(conn, HELD, worker=worker_id)]


async def canceled(conn: Connection, worker_id: str, job_ids: Sequence[UUID]) -> list[tuple[UUID, int]]:
    """Of these jobs of this worker, those (id, attempt) that were asked to stop."""
    rows = await fetch(conn, CANCELED, worker=worker_id, ids=job_ids)
    return [(row["id"], row["attempt_count"]) for row in rows]


async def record_undone(conn: Connection, worker_id: str, attempts: Sequence[tuple[UUID, int]]) -> set[UUID]:
    """Of these attempts, the jobs whose claim a failover of the server undid. The attempts are recorded as lost.

    A standby that takes over may lack the last commits of its leader. The next attempt gets a new number, so that only
    one of the two passes the fence.
    """
    ids, numbers = zip(*attempts, strict=True)
    return {row["id"] for row in await fetch(conn, UNDONE, worker=worker_id, ids=ids, attempts=numbers)}


async def expire_queued(conn: Connection, *, limit: int = 1000) -> int:
    """Cancel queued jobs that were not started in time, at most `limit`; those who wait for them are woken."""
    return int(await retry_deadlocks(conn, lambda: fetch_value(conn, EXPIRE, limit=limit)))


async def promote(conn: Connection, *, limit: int = 5000) -> int:
    """Mark jobs whose time has come as ready, thousands at a time, so that claims need not."""
    return int(await fetch_value(conn, PROMOTE, limit=limit))
