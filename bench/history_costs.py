"""What work costs beside a long history: enqueue, drain, restart, crash recovery, and the drop of a large day.

The history is that of `python -m bench.history --folder DIR --jobs N`, beside it stands an empty database in a server
of its own. Both take turns. `--drop` measures the drop of a table of history with as many jobs, which it makes first,
while jobs are enqueued and run.

    python -m bench.history_costs --folder DIR [--jobs 5000000] [--work 10000] [--rounds 3] [--chart FILE] [--drop]
"""

import argparse
import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import uvloop
from rich.console import Console
from rich.table import Table

from atlas.db.migrations import migrate
from atlas.db.pool import Connection, Pool, connect, open_pool
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.gate import switch
from atlas.engine.jobs.new_job import NewJob
from atlas.logs import configure_logs
from atlas.postgres.cluster import EmbeddedPostgres, start_embedded
from atlas.workers.worker import Worker, WorkerOptions
from bench.charts import Bar, draw
from bench.jobs.ground import BENCH
from bench.peers.databases import at_database

TYPE = "bench.noop"
PIECE = 2000
EXPIRED_DAY = "2026-08-01"
BACKENDS = "select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
PARTS = "select name from atlas.history_parts() where keep_days <> 5"
INDEXES = "select indexname, indexdef from pg_indexes where schemaname = 'atlas' and tablename = $1"
COUNTED = """
update atlas.history_contents h
set jobs = c.jobs, failed = coalesce((c.meta->'by_status'->>'failed')::bigint, 0),
  canceled = coalesce((c.meta->'by_status'->>'canceled')::bigint, 0), attempts = 0, steps = 0
from atlas.count_history_part($1) c where h.part = $1 and h.tenant_id = c.tenant_id"""
WAITED = """
select coalesce(extract(epoch from max(started_at - created_at)) * 1000, 0)::float8
from only atlas.jobs where job_type = 'bench.noop' and created_at > $1"""
FIGURES = {
    "enqueue": "enqueue in bulk, µs of the server a job",
    "drain": "drain, µs of the server a job",
    "restart": "restart after a stop, ms",
    "recovery": "recovery after kill -9, ms",
}


@asynccontextmanager
async def server_with(folder: Path, database: str) -> AsyncIterator[tuple[EmbeddedPostgres, str]]:
    """The server in a folder, and the address of its database, which is made unless it is there."""
    server = await start_embedded(folder)
    try:
        admin = await connect(server.url("postgres"))
        if not await admin.fetchval("select true from pg_database where datname = $1", database):
            await admin.execute(f"create database {database}")
        await admin.close()
        url = at_database(server.url("postgres"), database)
        await migrate(url)
        yield server, url
    finally:
        server.release()


async def work(url: str, jobs: int) -> dict[str, float]:
    """Microseconds of the server's processor time to enqueue a job in bulk, and to drain it."""
    pool = await open_pool(url, size=4)
    try:
        async with pool.acquire() as conn:
            await switch(conn, online=True, actor=BENCH)
            await enqueue_many(conn, [NewJob(TYPE, {})], actor=BENCH)
            before = await _server_us(pool)
            for _ in range(0, jobs, PIECE):
                await enqueue_many(conn, [NewJob(TYPE, {"n": n}) for n in range(PIECE)], actor=BENCH)
        enqueued = await _server_us(pool)
        worker = Worker(pool, url, WorkerOptions([TYPE], drain=True))
        await worker.run()
        drained = await _server_us(pool)
    finally:
        await pool.close()
    return {"enqueue": (enqueued - before) / jobs, "drain": (drained - enqueued) / worker.finished}


async def _server_us(pool: Pool) -> float:
    used = 0
    for row in await pool.fetch(BACKENDS):
        with contextlib.suppress(FileNotFoundError):
            used += int(Path(f"/proc/{row['pid']}/schedstat").read_text().split()[0])
    return used / 1e3


async def start_again(folder: Path, database: str, *, jobs: int, is_killed: bool) -> float:
    """Milliseconds until a server answers that was stopped, or killed after it had enqueued jobs since a checkpoint."""
    data = folder / "postgres" / "data"
    async with server_with(folder, database) as (server, url):
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
    server = await start_embedded(folder)
    conn = await connect(at_database(server.url("postgres"), database))
    await conn.fetchval("select id from only atlas.jobs where status = 'queued' limit 1")
    took = (time.perf_counter() - began) * 1000
    await conn.close()
    server.release()
    return took


async def make_day(owner: Connection) -> str:
    """A table of history that is past its age, with a copy of all jobs in history, counted as moves count them."""
    await owner.execute("set statement_timeout = 0; set synchronous_commit = off; set maintenance_work_mem = '512MB'")
    part: str = await owner.fetchval("select atlas.add_history_part(5, $1::text::date)", EXPIRED_DAY)
    name = part.removeprefix("jobs_history_")
    indexes = await owner.fetch(INDEXES, part)
    await owner.execute("set search_path = atlas; set session_replication_role = replica")
    await owner.execute(f"drop index {', '.join(index['indexname'] for index in indexes)}")
    for row in await owner.fetch(PARTS):
        await owner.execute(f"insert into {part} select * from only {row['name']}")
    for index in indexes:
        await owner.execute(index["indexdef"])
    await owner.execute(f"vacuum analyze {part}")
    await owner.execute("select measure_history_part($1)", name)
    await owner.execute(COUNTED, name)
    await owner.execute("insert into history_changes (part, is_move) values ($1, true)", name)
    await owner.execute("set session_replication_role = origin; checkpoint")
    return part


async def drop_beside_work(url: str) -> str:
    """Drop the day while jobs are enqueued one by one and run; how long that took, and the longest wait of a call."""
    owner = await connect(url)
    part = f"jobs_history_5_{EXPIRED_DAY.replace('-', '')}"
    if not await owner.fetchval("select to_regclass($1)", f"atlas.{part}"):
        part = await make_day(owner)
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


def as_table(figures: dict[str, dict[str, list[float]]], names: list[str]) -> Table:
    """A row for each figure: beside nothing, beside the history, and their ratio."""
    table = Table("what", *names, "ratio")
    for figure, text in FIGURES.items():
        empty, history = (median(figures[name][figure]) for name in names)
        table.add_row(text, f"{empty:,.1f}", f"{history:,.1f}", f"{history / empty:.2f}")
    return table


def chart(figures: dict[str, dict[str, list[float]]], names: list[str]) -> str:
    """The ratios as bars."""
    bars = []
    for figure, text in FIGURES.items():
        empty, history = (median(figures[name][figure]) for name in names)
        ratio, label = history / empty, f"{history / empty:.2f} ({history:,.0f} / {empty:,.0f})"
        bars.append(Bar(text.split(",")[0], ratio, label, ratio, ratio, is_own=True))
    return draw(f"Beside {names[1]}, as a multiple of an empty database", bars)


async def main() -> None:
    """Measure by turns, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.history_costs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000_000, help="the size of the history")
    parser.add_argument("--work", type=int, default=10_000, help="jobs that are enqueued and drained in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, required=True, help="where the server with the history is")
    parser.add_argument("--chart", type=Path, help="where to draw the ratios")
    parser.add_argument("--drop", action="store_true", help="measure the drop of a day alone")
    chosen = parser.parse_args()
    configure_logs("error")
    history = (chosen.folder, f"history_{chosen.jobs}")
    if chosen.drop:
        async with server_with(*history) as (_, url):
            print(await drop_beside_work(url))
        return
    names = ["no finished jobs", f"{chosen.jobs:,} finished jobs"]
    places = {names[0]: (chosen.folder.with_name(f"{chosen.folder.name}-empty"), "empty"), names[1]: history}
    figures: dict[str, dict[str, list[float]]] = {name: {figure: [] for figure in FIGURES} for name in names}
    for _ in range(chosen.rounds):
        for name, place in places.items():
            async with server_with(*place) as (_, url):
                for figure, value in (await work(url, chosen.work)).items():
                    figures[name][figure].append(value)
            for figure, is_killed in (("restart", False), ("recovery", True)):
                figures[name][figure].append(await start_again(*place, jobs=chosen.work, is_killed=is_killed))
    Console(width=150).print(as_table(figures, names))
    if chosen.chart:
        chosen.chart.write_text(chart(figures, names))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
