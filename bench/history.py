"""How large tables of history are, and how long lists over them take.

Each history has this many finished jobs over some days and tenants, in the tables of their days, as the scheduler's
sweep files them; 0 has none. Beside them, each has the same 100,000 unfinished jobs and dead letters in the hot table.
The lists and callers are those of `bench.lists`.

    python -m bench.history --folder DIR [--jobs 2000000] [--days 90] [--tenants 200] [--calls 15] [--filters TEXT]
                            [--only-make]

Each history has a server of its own in the folder, where it stays: the next call measures without making it again.
"""

import argparse
import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path

import uvloop
from rich.console import Console

from atlas.db.migrations import migrate
from atlas.db.pool import Connection, connect
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from bench.lists import (
    AT,
    COLUMNS,
    GROUP,
    HOST,
    RUN,
    TENANT_ID,
    TENANTS,
    TIMED_ID,
    JobHistory,
    as_table,
    make_tokens,
    measure,
    rows_of,
)
from bench.peers.databases import at_database

KEEP_DAYS = 90
FILED = "status in ('succeeded', 'failed', 'canceled') and dead_lettered_at is null"
# Of a thousand jobs 980 are filed.
FILED_SHARE = 0.98
# Of this many jobs the hot table has those that are not filed.
HOT_JOBS = 5_000_000
FILL = "insert into atlas.{table} ({columns}) select {columns} from ({rows}) made({columns}) where {chosen}"
# Nothing has to survive a crash while a history is made.
BUILD_SETTINGS = ("fsync = off", "full_page_writes = off", "max_wal_size = '16GB'", "autovacuum = off")
BUILD_SESSION = """
set synchronous_commit = off; set session_replication_role = replica; set jit = off; set statement_timeout = 0;
set maintenance_work_mem = '256MB'; set max_parallel_maintenance_workers = 0; set search_path = atlas, public"""
BUILDERS = 2
PART = "select atlas.add_history_part($1, $2)"
INDEXES = """
select indexname, indexdef from pg_indexes
where schemaname = 'atlas' and tablename = $1 and indexname <> $1 || '_pkey'"""
MEASURE = "select atlas.measure_history_part($1)"
COUNT = """
update atlas.history_contents h
set jobs = c.jobs, failed = coalesce((c.meta->'by_status'->>'failed')::bigint, 0),
  canceled = coalesce((c.meta->'by_status'->>'canceled')::bigint, 0), attempts = 0, steps = 0
from atlas.count_history_part($1) c where h.part = $1 and h.tenant_id = c.tenant_id"""
NOTE = "insert into atlas.history_changes (part, is_move) values ($1, true)"
SIZES = """
select count(*), coalesce(sum(c.reltuples), 0) as jobs, coalesce(sum(pg_table_size(c.oid)), 0) as bytes,
  coalesce(sum(pg_indexes_size(c.oid)), 0) as index_bytes
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'atlas.jobs'::regclass"""


async def make_history(url: str, jobs: int, days: int, tenants: int) -> None:
    """Fill an empty database: unfinished jobs, and one day of history after the other by two sessions."""
    async with building(url) as sessions:
        await sessions[0].execute(TENANTS, tenants)
        hot = FILL.format(table="jobs", rows=rows_of(HOT_JOBS, AT), columns=COLUMNS, chosen=f"not ({FILED})")
        await sessions[0].execute(hot, 0, HOT_JOBS, GROUP, RUN, HOST, tenants)
        today: date = await sessions[0].fetchval("select (now() at time zone 'UTC')::date")
        of_day = math.ceil(jobs / days / FILED_SHARE)

        async def make_days(owner: Connection, first: int) -> None:
            for nth in range(first, days if jobs else 0, len(sessions)):
                await _make_day(owner, today - timedelta(days=days - nth), nth * of_day, of_day, days * of_day, tenants)

        await asyncio.gather(*(make_days(owner, nth) for nth, owner in enumerate(sessions)))
        await sessions[0].execute("vacuum analyze atlas.jobs")


@asynccontextmanager
async def building(url: str) -> AsyncIterator[Sequence[Connection]]:
    """Sessions that fill tables, on a server that does not wait for its disk meanwhile."""
    sessions = [await connect(url) for _ in range(BUILDERS)]
    try:
        for setting in BUILD_SETTINGS:
            await sessions[0].execute(f"alter system set {setting}")
        await sessions[0].execute("select pg_reload_conf()")
        for session in sessions:
            await session.execute(BUILD_SESSION)
            await session.execute(TENANT_ID + ";" + TIMED_ID)
        yield sessions
        await sessions[0].execute("alter system reset all")
        await sessions[0].execute("select pg_reload_conf()")
        await sessions[0].execute("checkpoint")
    finally:
        for session in sessions:
            await session.close()


async def fill_part(owner: Connection, part: str, statement: str, *values: object) -> None:
    """Fill a table of history, and store of it what moves store. Its indexes are made after its jobs."""
    indexes = await owner.fetch(INDEXES, part)
    await owner.execute(f"drop index {', '.join(index['indexname'] for index in indexes)}")
    await owner.execute(statement, *values)
    for index in indexes:
        await owner.execute(index["indexdef"])
    await owner.execute(f"vacuum analyze atlas.{part}")
    for stored in (MEASURE, COUNT, NOTE):
        await owner.execute(stored, part.removeprefix("jobs_history_"))


async def _make_day(owner: Connection, day: date, done: int, count: int, jobs: int, tenants: int) -> None:
    part: str = await owner.fetchval(PART, KEEP_DAYS, day)
    at = f"timestamptz '{day} 00:00+00' + (i - {done} - 1) * interval '{86_390 / count} seconds'"
    fill = FILL.format(table=part, rows=rows_of(count, at), columns=COLUMNS, chosen=FILED)
    await fill_part(owner, part, fill, done, jobs, GROUP, RUN, HOST, tenants)


async def sizes(url: str) -> str:
    """How large the tables of history are, and their indexes, for each million jobs."""
    owner = await connect(url)
    row = await owner.fetchrow(SIZES)
    await owner.close()
    assert row is not None
    millions = max(float(row["jobs"]), 1) / 1e6
    bytes, index_bytes = (float(row[name]) / millions / 1e6 for name in ("bytes", "index_bytes"))
    return (
        f"{row['count']} tables, {millions:.2f} million jobs, {bytes:.0f} MB and {index_bytes:.0f} MB of indexes each"
    )


@asynccontextmanager
async def history(folder: Path, jobs: int, days: int, tenants: int) -> AsyncIterator[str]:
    """The address of the history of this size, which is made unless it is there."""
    name = f"history_{jobs}"
    server = await start_embedded(folder / name)
    try:
        url = at_database(server.url("postgres"), name)
        admin = await connect(server.url("postgres"))
        is_there = await admin.fetchval("select true from pg_database where datname = $1", name)
        if not is_there:
            await admin.execute(f"create database {name}")
        await admin.close()
        await migrate(url)
        if not is_there:
            await make_history(url, jobs, days, tenants)
        yield url
    finally:
        server.release()


async def main() -> None:
    """Make the histories, measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[2_000_000])
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--calls", type=int, default=15, help="calls of each filter by each caller")
    parser.add_argument("--filters", default="", help="only those whose names have this in them")
    parser.add_argument("--folder", type=Path, required=True, help="where the servers and their histories stay")
    parser.add_argument("--only-make", action="store_true", help="make the histories, and measure nothing")
    chosen = parser.parse_args()
    configure_logs("error")
    measured = {}
    for jobs in chosen.jobs:
        async with history(chosen.folder, jobs, chosen.days, chosen.tenants) as url:
            print(f"{jobs:,} jobs: {await sizes(url)}", flush=True)
            if not chosen.only_make:
                made = JobHistory(url, jobs, chosen.tenants, await make_tokens(url, chosen.tenants))
                times = await measure(made, calls=chosen.calls, page_cost=4, part=chosen.filters)
                measured[f"{jobs:,} finished jobs"] = times
    if measured:
        Console(width=200).print(as_table(measured))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
