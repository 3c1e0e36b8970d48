"""What work costs beside a long history: enqueue, claim, drain, restart, crash recovery, backups, the drop of a day.

The histories are those of `python -m bench.history --folder DIR --jobs 0 1000000 20000000`. All of them and an empty
database take turns, each in a server of its own. All but the empty one have the same 100,000 unfinished jobs and dead
letters, so what differs between them is history alone.

    python -m bench.history_costs --folder DIR [--jobs 0 1000000 20000000] [--work 10000] [--rounds 3] [--chart FILE]
    python -m bench.history_costs --folder DIR --jobs 20000000 --drop    drops a day of 5,000,000 jobs beside work
    python -m bench.history_costs --folder DIR --backups                 two backups of each, the second on the first
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import uvloop
from rich.console import Console
from rich.table import Table

from atlas.db.migrations import migrate
from atlas.db.pool import Connection, connect, open_pool
from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lease import new_worker_id, register_worker
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import succeed
from atlas.logs import configure_logs
from atlas.postgres.cluster import EmbeddedPostgres, start_embedded
from atlas.workers.worker import Worker, WorkerOptions
from bench.charts import Bar, draw
from bench.history import building, fill_part
from bench.jobs.ground import BENCH
from bench.peers.databases import at_database, server_us

TYPE = "bench.noop"
PIECE = 2000
# Claimed one by one.
CLAIMS = 400
EMPTY = "an empty database"
EXPIRED_DAY = "2026-08-01"
DAY_JOBS = 5_000_000
PARTS = """
select h.name, c.reltuples from atlas.history_parts() h join pg_class c on c.oid = ('atlas.' || h.name)::regclass
where h.keep_days <> 5 order by h.name"""
WAITED = """
select coalesce(extract(epoch from max(started_at - created_at)) * 1000, 0)::float8
from only atlas.jobs where job_type = 'bench.noop' and created_at > $1"""
FIGURES = {
    "enqueue": "enqueue in bulk, µs of the server a job",
    "claim": "claim one by one, µs of the server a job",
    "drain": "drain, µs of the server a job",
    "restart": "restart after a stop, ms",
    "recovery": "recovery after kill -9, ms",
}
Figures = dict[str, dict[str, list[float]]]


@dataclass(frozen=True, slots=True)
class HistoryServer:
    """The server of a history."""

    name: str
    folder: Path
    database: str


def places_in(folder: Path, sizes: Sequence[int]) -> list[HistoryServer]:
    """An empty database, and the histories of these sizes."""
    histories = [
        HistoryServer(f"{jobs:,} finished jobs", folder / f"history_{jobs}", f"history_{jobs}") for jobs in sizes
    ]
    return [HistoryServer(EMPTY, folder / "empty", "empty"), *histories]


@asynccontextmanager
async def server_of(place: HistoryServer) -> AsyncIterator[tuple[EmbeddedPostgres, str]]:
    """The server of a place, and the address of its database; the empty one is made unless it is there."""
    server = await start_embedded(place.folder)
    try:
        if place.name == EMPTY:
            admin = await connect(server.url("postgres"))
            if not await admin.fetchval("select true from pg_database where datname = $1", place.database):
                await admin.execute(f"create database {place.database}")
            await admin.close()
        url = at_database(server.url("postgres"), place.database)
        await migrate(url)
        yield server, url
    finally:
        server.release()


async def work(url: str, jobs: int) -> dict[str, float]:
    """Microseconds of the server's processor time to enqueue a job in bulk, to claim one, and to drain it."""
    pool, owner = await open_pool(url, size=4), await connect(url)
    try:
        async with pool.acquire() as conn:
            await switch(conn, online=True, actor=BENCH)
            await enqueue_many(conn, [NewJob(TYPE, {})], actor=BENCH)
            before = await server_us(owner)
            for _ in range(0, jobs, PIECE):
                await enqueue_many(conn, [NewJob(TYPE, {"n": n}) for n in range(PIECE)], actor=BENCH)
            enqueued = await server_us(owner)
            claiming = await _claim(owner, conn)
        claimed = await server_us(owner)
        worker = Worker(pool, url, WorkerOptions([TYPE], drain=True))
        await worker.run()
        drained = await server_us(owner)
    finally:
        await owner.close()
        await pool.close()
    return {"enqueue": (enqueued - before) / jobs, "claim": claiming, "drain": (drained - claimed) / worker.finished}


async def _claim(owner: Connection, conn: Connection) -> float:
    """Microseconds of the server for each of some claims of one job."""
    worker = Claimant(new_worker_id(), [TYPE])
    await register_worker(conn, worker.id, lease=600, job_types=[TYPE])
    await claim(conn, worker, limit=1)
    before = await server_us(owner)
    claimed = [job for _ in range(CLAIMS) for job in await claim(conn, worker, limit=1)]
    spent = await server_us(owner) - before
    await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED") for job in claimed])
    return spent / len(claimed)


async def start_again(place: HistoryServer, *, jobs: int, is_killed: bool) -> float:
    """Milliseconds until a server answers that was stopped, or killed after it had enqueued jobs since a checkpoint."""
    data = place.folder / "postgres" / "data"
    async with server_of(place) as (server, url):
        owner = await connect(url)
        await owner.execute("checkpoint")
        for _ in range(0, jobs, PIECE):
            await enqueue_many(owner, [NewJob(TYPE, {"n": n}) for n in range(PIECE)], actor=BENCH)
        postmaster = int((data / "postmaster.pid").read_text().split()[0])
        if is_killed:
            os.kill(postmaster, signal.SIGKILL)
            owner.terminate()
        else:
            await owner.close()
    while Path(f"/proc/{postmaster}").exists() or (not is_killed and (data / "postmaster.pid").exists()):
        await asyncio.sleep(0.05)
    began = time.perf_counter()
    server = await start_embedded(place.folder)
    conn = await connect(at_database(server.url("postgres"), place.database))
    await conn.fetchval("select id from only atlas.jobs where status = 'queued' limit 1")
    took = (time.perf_counter() - began) * 1000
    await conn.close()
    server.release()
    return took


async def make_day(url: str) -> str:
    """A table of history that is past its age, with copies of jobs in history, counted as moves count them."""
    async with building(url) as (owner, *_):
        part: str = await owner.fetchval("select add_history_part(5, $1::text::date)", EXPIRED_DAY)
        chosen, jobs = [], 0.0
        for row in await owner.fetch(PARTS):
            if jobs < DAY_JOBS:
                chosen.append(f"select * from only {row['name']}")
                jobs += row["reltuples"]
        await fill_part(owner, part, f"insert into {part} {' union all '.join(chosen)} limit {DAY_JOBS}")
    return part


async def drop_beside_work(url: str) -> str:
    """Drop the day while jobs are enqueued one by one and run; how long that took, and the longest wait of a call."""
    owner = await connect(url)
    part = f"jobs_history_5_{EXPIRED_DAY.replace('-', '')}"
    if not await owner.fetchval("select to_regclass($1)", f"atlas.{part}"):
        part = await make_day(url)
    pool = await open_pool(url, size=6)
    worker = Worker(pool, url, WorkerOptions([TYPE]))
    running = asyncio.create_task(worker.run())
    calls: list[tuple[float, float]] = []
    ends = asyncio.Event()

    async def enqueue_all() -> None:
        async with pool.acquire() as conn:
            await switch(conn, online=True, actor=BENCH)
            while not ends.is_set():
                began = time.perf_counter()
                await enqueue(conn, NewJob(TYPE, {}), actor=BENCH)
                calls.append((began, time.perf_counter() - began))
                await asyncio.sleep(0.002)

    caller = asyncio.create_task(enqueue_all())
    await asyncio.sleep(4)
    since = await owner.fetchval("select clock_timestamp()")
    began = time.perf_counter()
    jobs = await owner.fetchval("select atlas.drop_history_part($1, '{}')", part)
    took = time.perf_counter() - began
    during = [seconds for at, seconds in calls if at + seconds > began]
    await asyncio.sleep(1)
    ends.set()
    await caller
    waited = await owner.fetchval(WAITED, since)
    worker.stop()
    await running
    await pool.close()
    await owner.close()
    before = [seconds for at, seconds in calls if at + seconds <= began]
    longest = max(during or [seconds for at, seconds in calls if at > began][:1])
    return (
        f"dropped {jobs:,} jobs in {took:.2f} s; the longest enqueue beside it took {longest * 1000:.0f} ms, "
        f"before it {max(before) * 1000:.0f} ms; a job waited {waited:.0f} ms at most for its start"
    )


async def back_up(place: HistoryServer) -> str:
    """Two backups, of which the second reuses what did not change: how long each took, and its own megabytes."""
    figures = []
    folder = place.folder / "backups"
    shutil.rmtree(folder, ignore_errors=True)
    async with server_of(place) as (_, url):
        environment = {**os.environ, "ATLAS_HOME": str(place.folder / "home"), "DATABASE_URL": url}
        backup = [sys.executable, "-P", "-m", "atlas.cli.main", "backup"]
        for name, *options in (["first"], ["next", "--base", str(folder / "first")]):
            command = [*backup, str(folder / name), *options]
            began = time.perf_counter()
            process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.DEVNULL)
            if await process.wait():
                raise RuntimeError(f"{command} ended with {process.returncode}")
            took = time.perf_counter() - began
            files = [path.stat() for path in (folder / name).rglob("*") if path.is_file()]
            own = sum(file.st_size for file in files if file.st_nlink == 1 or name == "first")
            figures.append(f"{took:.0f} s and {own / 1e6:.0f} MB")
    shutil.rmtree(folder)
    return f"{place.name}: the first backup took {figures[0]}, the next one with --base {figures[1]}"


def as_table(figures: Figures) -> Table:
    """The medians of each figure, with the ratio to the first history."""
    names = list(figures)
    table = Table("what", *names)
    for figure, text in FIGURES.items():
        values = [median(figures[name][figure]) for name in names]
        ratios = [f" ({value / values[1]:.2f})" if nth > 1 else "" for nth, value in enumerate(values)]
        table.add_row(text, *(f"{value:,.1f}{ratio}" for value, ratio in zip(values, ratios, strict=True)))
    return table


def chart(figures: Figures) -> str:
    """What each figure is beside a history, as a multiple of that beside none."""
    bars = []
    _, none, *names = figures
    for figure, text in FIGURES.items():
        base = median(figures[none][figure])
        for name in names:
            ratios = [value / base for value in figures[name][figure]]
            middle = median(ratios)
            label = f"{middle:.2f} ({middle * base:,.0f} / {base:,.0f})"
            jobs = name.split()[0].replace(",000,000", " M")
            bars.append(Bar(f"{text.split(',')[0]}, {jobs}", middle, label, min(ratios), max(ratios), is_own=True))
    return draw("Beside finished jobs, as a multiple of none", bars)


async def measure(places: Sequence[HistoryServer], rounds: int, jobs: int) -> Figures:
    """All figures of all places, by turns."""
    figures: Figures = {place.name: {figure: [] for figure in FIGURES} for place in places}
    for _ in range(rounds):
        for place in places:
            async with server_of(place) as (_, url):
                for figure, value in (await work(url, jobs)).items():
                    figures[place.name][figure].append(value)
            for figure, is_killed in (("restart", False), ("recovery", True)):
                figures[place.name][figure].append(await start_again(place, jobs=jobs, is_killed=is_killed))
            print(
                place.name, {figure: round(values[-1], 1) for figure, values in figures[place.name].items()}, flush=True
            )
    return figures


async def main() -> None:
    """Measure by turns, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.history_costs", description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[0, 1_000_000, 20_000_000], help="sizes of histories")
    parser.add_argument("--work", type=int, default=10_000, help="jobs that are enqueued and drained in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, required=True, help="where the servers with the histories are")
    parser.add_argument("--chart", type=Path, help="where to draw the ratios")
    parser.add_argument("--drop", action="store_true", help="measure the drop of a day alone")
    parser.add_argument("--backups", action="store_true", help="measure backups alone")
    chosen = parser.parse_args()
    configure_logs("error")
    places = places_in(chosen.folder, chosen.jobs)
    if chosen.drop:
        for place in places[1:]:
            async with server_of(place) as (_, url):
                print(f"{place.name}: {await drop_beside_work(url)}", flush=True)
    elif chosen.backups:
        for place in places[1:]:
            print(await back_up(place), flush=True)
    else:
        figures = await measure(places, chosen.rounds, chosen.work)
        Console(width=150).print(as_table(figures))
        if chosen.chart:
            chosen.chart.write_text(chart(figures))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
