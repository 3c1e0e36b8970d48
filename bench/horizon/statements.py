"""What the other statements read while the xmin horizon is held: `python -m bench.horizon.statements`.

A worker and a scheduler run under load, first without a holder, then beside an idle transaction. After each, every verb
is run in a transaction that is rolled back: the pages of its statements, and its time. Pages say more than times on a
machine that does other things too. Then: the dead rows of each table.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from atlas.audit.sealing.seal import seal
from atlas.cli.programs.long_running import atlas_argv
from atlas.db.pool import Connection, Pool
from atlas.db.statements import fetch_row
from atlas.engine.alerts import find_alerts
from atlas.engine.jobs.claim import Claimant
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import finish_and_claim
from atlas.engine.jobs.lease import expire_queued, heartbeat, new_worker_id, promote, reap, register_worker
from atlas.engine.jobs.lists.job_list import JobFilter, list_jobs
from atlas.engine.jobs.lists.summary import oldest_due, summarize
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import read_gate
from atlas.engine.metering.overview import read_overview, read_tenants
from atlas.engine.metering.series import SeriesQuery, read_series
from atlas.engine.metering.usage import meter_usage
from atlas.engine.retention.retention import PRUNE_JOBS
from atlas.engine.webhooks.deliver import deliver_events
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from bench.fairness import add_tenant
from bench.horizon.__main__ import SETTINGS
from bench.horizon.holders import idle_transaction, no_holder
from bench.jobs.ground import BENCH, ground
from bench.peers.databases import connected

WAITING = 500
TENANTS = 5
EXPLAINED = ("select", "with", "insert", "update", "delete")
DEAD_ROWS = """
select relname, n_live_tup, n_dead_tup, n_tup_upd from pg_stat_user_tables
where schemaname = 'atlas' and (n_tup_upd > 0 or n_dead_tup > 0)"""
Verb = Callable[[Connection], Awaitable[object]]


async def measure_verbs(pool: Pool) -> dict[str, tuple[float, int]]:
    """Of each verb: milliseconds, the shortest of three, and pages."""
    async with pool.acquire() as conn:
        # The first sweep after a worker's end looks at all that it ran; the next ones know that nothing is left.
        await reap(conn)
        while await meter_usage(conn):
            pass
        while await seal(conn):
            pass
        jobs = [NewJob("bench.held", {"at": 0}) for _ in range(WAITING)]
        ids = [one.id for one in await enqueue_many(conn, jobs, actor=BENCH)]
        worker = new_worker_id()
        await register_worker(conn, worker, lease=600, job_types=["bench.held"])
        return {name: await _measure(conn, verb) for name, verb in _verbs(worker, ids[-1]).items()}


def _verbs(worker: str, job_id: Any) -> dict[str, Verb]:
    def transaction(conn: Connection) -> Callable[[], Any]:
        @asynccontextmanager
        async def same() -> AsyncIterator[Connection]:
            yield conn

        return same

    return {
        "claim 50": lambda conn: finish_and_claim(conn, Claimant(worker, ["bench.held"]), slots=50),
        "heartbeat": lambda conn: heartbeat(conn, worker, lease=30, running=0),
        "read the gate": read_gate,
        "sweep: take back": reap,
        "sweep: promote": promote,
        "sweep: expire": expire_queued,
        "seal": seal,
        "meter": meter_usage,
        "retention": _look_for_old_jobs,
        "deliver to webhooks": deliver_events,
        "alerts": find_alerts,
        "oldest due": oldest_due,
        "list, newest": lambda conn: list_jobs(conn),
        "list, queued": lambda conn: list_jobs(conn, JobFilter(statuses=("queued",))),
        "list, running": lambda conn: list_jobs(conn, JobFilter(statuses=("running",))),
        "summary": lambda conn: summarize(transaction(conn), transaction(conn), transaction(conn)),
        "overview": lambda conn: read_overview(transaction(conn), transaction(conn), transaction(conn)),
        "tenants": read_tenants,
        "series": lambda conn: read_series(conn, SeriesQuery(None)),
        "explain": lambda conn: explain(conn, job_id),
    }


async def _look_for_old_jobs(conn: Connection) -> object:
    """A batch of retention that removes nothing."""
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    limits = dict.fromkeys(("jobs_before", "attempts_before", "steps_before"), hour_ago)
    ids = {"after": UUID(int=0), "until": UUID(int=2**128 - 1)}
    return await fetch_row(conn, PRUNE_JOBS, tenant_id=SYSTEM_TENANT, limit=1000, **ids, **limits)


async def _measure(conn: Connection, verb: Verb) -> tuple[float, int]:
    took = []
    ran: list[Any] = []
    for number in range(3):
        async with _rolled_back(conn):
            if number == 0:
                conn.add_query_logger(ran.append)
            began = time.perf_counter()
            await verb(conn)
            took.append((time.perf_counter() - began) * 1000)
            if number == 0:
                conn.remove_query_logger(ran.append)
    pages = 0
    async with _rolled_back(conn):
        for query in ran:
            if query.query.lstrip().split(None, 1)[0].lower().startswith(EXPLAINED) or query.query.startswith("--"):
                plan = await conn.fetchval(f"explain (analyze, buffers, format json)\n{query.query}", *query.args)
                top = orjson.loads(plan)[0]["Plan"]
                pages += top["Shared Hit Blocks"] + top["Shared Read Blocks"]
            else:
                await conn.execute(query.query, *query.args)
    return min(took), pages


@asynccontextmanager
async def _rolled_back(conn: Connection) -> AsyncIterator[None]:
    transaction = conn.transaction(isolation="read_committed")
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


async def offer(url: str, home: Path, *, rate: float, seconds: float) -> None:
    """A worker, a scheduler and a load, until the time is over and nothing waits."""
    environment = {**os.environ, "DATABASE_URL": url, "ATLAS_HOME": str(home)}
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    worker = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.horizon.worker", url, "plain", **silent)
    scheduler = await asyncio.create_subprocess_exec(*atlas_argv("scheduler"), env=environment, **silent)
    try:
        arguments = ("-m", "bench.horizon.load", url, "plain", str(rate), str(seconds))
        load = await asyncio.create_subprocess_exec(sys.executable, *arguments, **silent)
        assert await load.wait() == 0
        await asyncio.sleep(5)
    finally:
        for process in (worker, scheduler):
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        await asyncio.gather(worker.wait(), scheduler.wait())


async def dead_rows(url: str) -> dict[str, Any]:
    """Rows, dead rows and updates of each table that is updated."""
    async with connected(url) as conn:
        return {row["relname"]: row for row in await conn.fetch(DEAD_ROWS)}


async def main(options: argparse.Namespace) -> None:
    """Measure twice, and print both tables."""
    with tempfile.TemporaryDirectory() as home:
        server = await start_embedded(Path(home), settings=SETTINGS)
        try:
            async with ground(server.url("postgres"), "horizon") as (pool, url):
                for number in range(TENANTS - 1):
                    await add_tenant(pool, f"t{number}")
                await offer(url, Path(home), rate=options.rate, seconds=options.before)
                before = await measure_verbs(pool)
                holder = no_holder if options.unheld else idle_transaction
                async with holder(url):
                    await offer(url, Path(home), rate=options.rate, seconds=options.seconds)
                    held = await measure_verbs(pool)
                    rows = await dead_rows(url)
        finally:
            server.release()
    verbs = Table("verb", "pages before", "held", "ms before", "held")
    for name, (ms, pages) in before.items():
        verbs.add_row(name, f"{pages:,}", f"{held[name][1]:,}", f"{ms:.2f}", f"{held[name][0]:.2f}")
    tables = Table("table", "rows", "dead rows", "updates")
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["n_dead_tup"]):
        tables.add_row(name, f"{row['n_live_tup']:,}", f"{row['n_dead_tup']:,}", f"{row['n_tup_upd']:,}")
    console = Console(width=120)
    console.print(verbs)
    console.print(tables)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.horizon.statements", description=__doc__)
    parser.add_argument("--rate", type=float, default=1500, help="jobs offered each second")
    parser.add_argument("--before", type=float, default=60, help="seconds of load before the horizon is held")
    parser.add_argument("--seconds", type=float, default=180, help="seconds of load while it is held")
    parser.add_argument("--unheld", action="store_true", help="hold nothing: what more rows cost by themselves")
    configure_logs("error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(parser.parse_args()))
