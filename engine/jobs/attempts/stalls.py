"""A worker whose event loop does not turn: what its watchdog reports, as evidence for when its lease is over."""

from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.finish import cut_stack

REPORT_STALL = statement("engine/jobs/attempts/sql/report_stall.sql")


async def report_stall(
    conn: Connection, worker_id: str, *, seconds: float, job_id: UUID | None, stack: str | None
) -> bool:
    """Record that the event loop of a worker has not turned for so long, and the job whose handler keeps it.

    Returns False if the worker has lost its lease by now. The next heartbeat takes it back.
    """
    text = None if stack is None else cut_stack(stack)
    return bool(await fetch_value(conn, REPORT_STALL, worker=worker_id, seconds=seconds, job_id=job_id, stack=text))
