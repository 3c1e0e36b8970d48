"""Reports a worker whose event loop does not turn. A process of its own: the worker can do nothing then."""

import asyncio
import json
import sys
from uuid import UUID

import asyncpg

from atlas.db.pool import UNREACHABLE, open_pool
from atlas.engine.jobs.attempts.stalls import report_stall
from atlas.errors import DatabaseError
from atlas.logs import configure_logs, get_logger

log = get_logger("watchdog")


def main() -> None:
    """Report what standard input says."""
    configure_logs()
    report = json.load(sys.stdin)
    facts = {name: report[name] for name in ("worker_id", "job_id", "stack")}
    log.error("the event loop of a worker does not turn", seconds=round(report["seconds"], 1), **facts)
    try:
        asyncio.run(_record(report))
    except (*UNREACHABLE, asyncpg.PostgresError, DatabaseError) as error:
        log.warning("a stalled worker could not be reported", worker_id=report["worker_id"], reason=repr(error))


async def _record(report: dict[str, object]) -> None:
    job_id = report["job_id"]
    async with asyncio.timeout(float(str(report["within"]))):
        pool = await open_pool(str(report["url"]), size=1)
        async with pool.acquire() as conn:
            await report_stall(
                conn,
                str(report["worker_id"]),
                seconds=float(str(report["seconds"])),
                job_id=None if job_id is None else UUID(str(job_id)),
                stack=None if report["stack"] is None else str(report["stack"]),
            )
        await pool.close()
