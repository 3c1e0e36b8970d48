"""Sets a run aside for the workers that have its workflow's code."""

from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

SET_ASIDE = statement("engine/workflows/sql/set_run_aside.sql")


async def set_run_aside(conn: Connection, run_id: UUID, attempt: int, *, worker_id: str, workflow: str) -> bool:
    """Give back a run that this worker holds and cannot execute. False: no living worker has the code, or it is lost.

    From then on it is claimed only by workers that have the code, for as long as one of them lives.
    """
    found = await fetch_value(conn, SET_ASIDE, run=run_id, attempt=attempt, worker=worker_id, workflow=workflow)
    return found is not None
