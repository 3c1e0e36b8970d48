"""How large tables of history are, and how long lists over them take.

Each history has this many jobs over some days and tenants; all but unfinished jobs and dead letters are in the tables
of their days, as the scheduler's sweep files them. The lists and callers are those of `bench.lists`.

    python -m bench.history --folder DIR [--jobs 2000000] [--days 90] [--tenants 200] [--calls 15] [--filters TEXT]

The server and its histories stay in the folder, and the next call measures without making them again.
"""

import argparse
import asyncio
from datetime import date, timedelta
from pathlib import Path

import uvloop
from rich.console import Console

from atlas.db.migrations import migrate
from atlas.db.pool import Connection, connect
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from bench.lists import (
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
FILL = """
with made as materialized (select * from ({rows}) made({columns})),
hot as (insert into atlas.jobs ({columns}) select * from made where not ({filed}))
insert into atlas.{part} ({columns}) select * from made where {filed}"""
PART = "select atlas.add_history_part($1, $2)"
INDEXES = """
select indexname, indexdef from pg_indexes
where schemaname = 'atlas' and tablename = $1 and indexname <> $1 || '_pkey'"""
MEASURE = "select atlas.measure_history_part($1)"
SIZES = """
select count(*), coalesce(sum(c.reltuples), 0) as jobs, coalesce(sum(pg_table_size(c.oid)), 0) as bytes,
  coalesce(sum(pg_indexes_size(c.oid)), 0) as index_bytes
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'atlas.jobs'::regclass"""


async def make_history(url: str, jobs: int, days: int, tenants: int) -> None:
    """Fill an empty database, one day of history after the other; the indexes of a day are made after its jobs."""
    owner = await connect(url)
    try:
        await owner.execute("set synchronous_commit = off; set session_replication_role = replica")
        await owner.execute("set maintenance_work_mem = '256MB'; set search_path = atlas, public")
        await owner.execute(TENANT_ID + ";" + TIMED_ID)
        await owner.execute(TENANTS, tenants)
        today: date = await owner.fetchval("select (now() at time zone 'UTC')::date")
        for nth in range(days):
            await _make_day(
                owner, today - timedelta(days=days - nth), nth * (jobs // days), jobs // days, jobs, tenants
            )
    finally:
        await owner.close()


async def _make_day(owner: Connection, day: date, done: int, count: int, jobs: int, tenants: int) -> None:
    if not count:
        return
    part: str = await owner.fetchval(PART, KEEP_DAYS, day)
    indexes = await owner.fetch(INDEXES, part)
    await owner.execute(f"drop index {', '.join(index['indexname'] for index in indexes)}")
    at = f"timestamptz '{day} 00:00+00' + (i - {done} - 1) * interval '{86_390 / count} seconds'"
    filled = FILL.format(rows=rows_of(count, at), columns=COLUMNS, filed=FILED, part=part)
    await owner.execute(filled, done, jobs, GROUP, RUN, HOST, tenants)
    for index in indexes:
        await owner.execute(index["indexdef"])
    await owner.execute(MEASURE, part.removeprefix("jobs_history_"))
    await owner.execute(f"vacuum analyze atlas.{part}")


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


async def main() -> None:
    """Make the histories, measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[2_000_000])
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--calls", type=int, default=15, help="calls of each filter by each caller")
    parser.add_argument("--filters", default="", help="only those whose names have this in them")
    parser.add_argument("--folder", type=Path, required=True, help="where the server and its histories stay")
    chosen = parser.parse_args()
    configure_logs("error")
    server = await start_embedded(chosen.folder)
    try:
        for jobs in chosen.jobs:
            url = await _made(server.url("postgres"), jobs, chosen.days, chosen.tenants)
            print(await sizes(url))
            history = JobHistory(url, jobs, chosen.tenants, await make_tokens(url, chosen.tenants))
            times = await measure(history, calls=chosen.calls, page_cost=4, part=chosen.filters)
            Console(width=200).print(as_table({f"{jobs:,} jobs in {chosen.days} tables": times}))
    finally:
        server.release()


async def _made(server: str, jobs: int, days: int, tenants: int) -> str:
    """The address of the history of this size, which is made unless it is there."""
    name = f"history_{jobs}"
    url = at_database(server, name)
    admin = await connect(server)
    is_there = await admin.fetchval("select true from pg_database where datname = $1", name)
    if not is_there:
        await admin.execute(f"create database {name}")
    await admin.close()
    await migrate(url)
    if not is_there:
        await make_history(url, jobs, days, tenants)
    return url


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
