"""Jobs that end in a transaction of their handler: how many a second, beside jobs that do not.

`python -m bench.transactions` drains each kind by one worker at concurrency 50, in turn, and prints the best rates,
with the processor time that the worker and the server spent on a job, which other work on the machine changes less.
"""

import argparse
import asyncio
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.drain import seconds_of_drain
from bench.jobs.ground import fill, ground

LEDGER = "set role none; create table ledger (job_id uuid); grant all on ledger to public"
BOOK = "insert into ledger values ($1)"
BATCH = 50


@job("bench.books")
async def books(input: dict[str, Any], ctx: JobContext) -> None:
    """Writes a row with a commit of its own: at least once."""
    async with ctx.pool.acquire() as conn:
        await conn.execute(BOOK, ctx.job_id)


@job("bench.empty_transaction")
async def empty(input: dict[str, Any], ctx: JobContext) -> None:
    """Writes nothing."""
    async with ctx.transaction():
        pass


@job("bench.transaction")
async def transaction(input: dict[str, Any], ctx: JobContext) -> None:
    """Writes a row in the commit that ends it: once."""
    async with ctx.transaction() as conn:
        await conn.execute(BOOK, ctx.job_id)


@job("bench.transaction_batch", transactional=True, batch_size=BATCH)
async def batch(inputs: list[dict[str, Any]], contexts: list[JobContext]) -> None:
    """Writes a row for each job in the one commit that ends them."""
    await contexts[0].connection.executemany(BOOK, [(context.job_id,) for context in contexts])


KINDS = {
    "bench.noop": "no transaction, writes nothing",
    "bench.books": "no transaction, writes a row over ctx.pool",
    "bench.empty_transaction": "ctx.transaction(), writes nothing",
    "bench.transaction": "ctx.transaction(), writes a row",
    "bench.transaction_batch": f"transactional=True, batches of {BATCH}, a row each",
}


async def measure(server_url: str, job_type: str, jobs: int) -> tuple[float, float, float]:
    """Jobs a second, and microseconds of the worker's and of the server's processor time for each."""
    async with ground(server_url, "transactions") as (pool, url):
        async with pool.acquire() as conn:
            await conn.execute(LEDGER)
            data = Path(await conn.fetchval("show data_directory"))
        postmaster = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
        await fill(pool, url, jobs, job_type)
        worker, server = time.process_time(), server_seconds(postmaster)
        await Worker(pool, url, WorkerOptions([job_type], batch=1000, drain=True)).run()
        worker, server = time.process_time() - worker, server_seconds(postmaster) - server
        return jobs / await seconds_of_drain(pool), 1e6 * worker / jobs, 1e6 * server / jobs


def server_seconds(postmaster: psutil.Process) -> float:
    """The processor time of a server: of its processes that run, and of those that have ended."""
    times = postmaster.cpu_times()
    used = times.user + times.system + times.children_user + times.children_system
    for process in postmaster.children():
        with suppress(psutil.NoSuchProcess):
            used += sum(process.cpu_times()[:2])
    return float(used)


async def main(options: argparse.Namespace) -> None:
    """On a server of its own."""
    best: dict[str, tuple[float, float, float]] = {}
    with tempfile.TemporaryDirectory() as home:
        server = await start_embedded(Path(home))
        try:
            for _ in range(options.rounds):
                for job_type in KINDS:
                    figures = await measure(server.url("postgres"), job_type, options.jobs)
                    best[job_type] = max(best.get(job_type, (0.0, 0.0, 0.0)), figures)
        finally:
            server.release()
    table = Table("handler", "jobs/s", "ratio", "worker, µs a job", "server, µs a job", "ratio of both")
    plain, *parts = best["bench.noop"]
    for job_type, name in KINDS.items():
        rate, *used = best[job_type]
        both = sum(parts) / sum(used)
        table.add_row(name, f"{rate:,.0f}", f"{rate / plain:.2f}", *(f"{part:.0f}" for part in used), f"{both:.2f}")
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.transactions", description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000, help="how many of each kind")
    parser.add_argument("--rounds", type=int, default=2, help="how often; the best rate counts")
    configure_logs("error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(parser.parse_args()))
