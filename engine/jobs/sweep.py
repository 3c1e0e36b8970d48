"""The sweep that every worker and scheduler does now and then, harmless in any number."""

import asyncpg

from atlas.db.pool import Connection
from atlas.engine.jobs.gate import expire
from atlas.engine.jobs.lease import promote, reap
from atlas.logs import get_logger

log = get_logger("sweep")


async def sweep(conn: Connection) -> None:
    """Take back what lost workers held, open a gate whose time has come, make due jobs ready.

    Each has a try of its own: a row that one of them stumbles over does not keep the others from their work.
    """
    for part in (_take_back, _open_gate, promote):
        try:
            await part(conn)
        except asyncpg.PostgresError as error:
            log.warning("a part of the sweep failed and is repeated", reason=repr(error))


async def _take_back(conn: Connection) -> None:
    for job_id, worker_id, verdict in await reap(conn):
        log.warning("a lease expired", job_id=str(job_id), lost_worker=worker_id, verdict=verdict)


async def _open_gate(conn: Connection) -> None:
    if await expire(conn):
        log.info("Atlas is online again: the time it was offline for is over")
