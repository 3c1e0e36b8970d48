"""The sweep that every worker and scheduler runs now and then. Any number may run at the same time."""

import asyncpg

from atlas.db.pool import Connection
from atlas.engine.jobs.groups import settle_groups
from atlas.engine.jobs.lease import expire_queued, promote, reap
from atlas.engine.jobs.switches.gate import expire
from atlas.engine.jobs.switches.pauses import end_pauses
from atlas.logs import get_logger, job_facts

log = get_logger("sweep")


async def sweep(conn: Connection) -> None:
    """Take back jobs of lost workers, open the gate and end pauses whose time is over, mark due jobs as ready,
    cancel those that were not started in time, end groups of which all jobs have ended.

    When one part fails, the others still run.
    """
    for part in (_take_back, _open_gate, _resume, promote, expire_queued, settle_groups):
        try:
            await part(conn)
        except asyncpg.PostgresError as error:
            log.warning("part of the sweep failed and is repeated", part=part.__name__.strip("_"), reason=repr(error))


async def _take_back(conn: Connection) -> None:
    for reaped in await reap(conn):
        facts = job_facts(
            reaped.id,
            tenant_id=reaped.tenant_id,
            job_type=reaped.job_type,
            attempt=reaped.attempt,
            worker_id=reaped.worker_id,
        )
        log.warning("lease expired", **facts, verdict=reaped.verdict)


async def _open_gate(conn: Connection) -> None:
    if await expire(conn):
        log.info("Atlas is online again: its time offline is over")


async def _resume(conn: Connection) -> None:
    if ended := await end_pauses(conn):
        log.info("pauses have ended: their time is over", pauses=ended)
