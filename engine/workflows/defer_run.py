"""Defers a run to the workers that have its workflow's code."""

from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

DEFER = statement("engine/workflows/sql/defer_run.sql")


async def defer_run(conn: Connection, run_id: UUID, attempt: int, *, worker_id: str, workflow: str) -> bool:
    """Give back a run that this worker holds and cannot execute. False: no living worker has the code, or it is lost.

    From then on it is claimed only by workers that have the code, for as long as one of them lives.
    """
    job_id = await fetch_value(conn, DEFER, run=run_id, attempt=attempt, worker=worker_id, workflow=workflow)
    return job_id is not None
