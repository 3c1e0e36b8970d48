"""What pages of operators read at size: causes of dead letters, previews of bulk actions, the slowest steps of a week.

Prints the processor time of the server's session and the time on the wall, in milliseconds: the median and the worst
call, without and with a snapshot that another session holds.

    python -m bench.operator_pages --folder DIR [--dead-letters 1000000] [--runs 200000] [--calls 7]
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import uvloop

from atlas.actors import system
from atlas.db.migrations import migrate
from atlas.db.pool import Connection, connect
from atlas.engine.jobs.bulk_previews import preview_bulk_action
from atlas.engine.jobs.counts import count_jobs
from atlas.engine.jobs.dead_letters import read_dead_letters
from atlas.engine.jobs.job_list import JobFilter
from atlas.engine.metering.step_times import StepTimesQuery, read_step_times
from atlas.engine.tenants.tenants import add_tenant
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from bench.peers.databases import at_database

ME = system("bench")
BATCH = 250_000
# Rows that are dead while the snapshot is held: each of these jobs is retried and fails again.
RETRIED = 20_000
DEAD = """
insert into atlas.jobs (tenant_id, job_type, status, input, error, created_at, started_at, finished_at,
  dead_lettered_at, attempt_count)
select ($1::uuid[])[1 + i % 6], 'bench.' || i % 31, 'failed', '{"n": 1}',
  jsonb_build_object('type', 'ConnectionError', 'message', 'host ' || chr(97 + i % 26) || ': port ' || i),
  at, at, at, at, 4
from (select i, clock_timestamp() - i * interval '1 second' as at from generate_series($2::int, $3::int) i) x"""
AGAIN = """
update atlas.jobs set error = error || '{"again": 1}', updated_at = clock_timestamp()
where id in (
  select id from only atlas.jobs where dead_lettered_at is not null order by dead_lettered_at desc limit $1)"""
# A run every three seconds of a week, of three workflows with six steps each.
RUNS = """
with began as materialized (
  select i, at,
    (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'))::uuid as id
  from (
    select i, clock_timestamp() - i * interval '604800 seconds' / $2::int as at
    from generate_series(1, $2::int) i) x),
runs as (
  insert into atlas.workflow_runs (id, tenant_id, workflow, requested_by, events_from, created_at)
  select id, $1, 'bench-' || i % 3, 'bench', 0, at from began)
insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status, started_at, finished_at)
select b.id, '', n, $1, 'step ' || n, 'step', 'succeeded', b.at + n * interval '1 second',
  b.at + n * interval '1 second' + (1 + i % 97) * interval '1 ms'
from began b cross join generate_series(0, 5) n"""


async def load(url: str, dead_letters: int, runs: int) -> None:
    """Fill an empty database."""
    conn = await connect(url)
    try:
        tenants = [(await add_tenant(conn, slug=f"t{n}", name=f"T{n}", actor=ME)).id for n in range(6)]
        await conn.execute("set synchronous_commit = off; set session_replication_role = replica")
        for first in range(1, dead_letters + 1, BATCH):
            await conn.execute(DEAD, tenants, first, min(first + BATCH - 1, dead_letters))
        await conn.execute(RUNS, tenants[0], runs)
        await conn.execute("set session_replication_role = default; set synchronous_commit = on")
        for table in ("jobs", "workflow_runs", "workflow_steps"):
            await conn.execute(f"vacuum analyze atlas.{table}")
        began = time.perf_counter()
        while not await count_jobs(conn):
            await asyncio.sleep(0.1)
        print(f"counted all jobs once in {time.perf_counter() - began:.1f} s")
    finally:
        await conn.close()


def processor_ms(pid: int) -> float:
    """How much processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10.0


@asynccontextmanager
async def held_snapshot(url: str) -> AsyncIterator[None]:
    """Another session holds the horizon, and rows die behind it."""
    holder, conn = await connect(url), await connect(url)
    await holder.execute("begin isolation level repeatable read")
    await holder.execute("select 1 from atlas.jobs limit 1")
    await conn.execute("set session_replication_role = replica")
    for _ in range(5):
        await conn.execute(AGAIN, RETRIED)
    await conn.close()
    try:
        yield
    finally:
        await holder.close()


async def measure(conn: Connection, name: str, calls: int, read: Callable[[], Awaitable[Any]]) -> None:
    """Print what a read costs."""
    pid: int = await conn.fetchval("select pg_backend_pid()")
    walls, clocks, found = [], [], None
    for _ in range(calls):
        began, clock = time.perf_counter(), processor_ms(pid)
        async with conn.transaction():
            found = await read()
        walls.append((time.perf_counter() - began) * 1000)
        clocks.append(processor_ms(pid) - clock)
    wall = f"{statistics.median(walls):.0f} ({max(walls):.0f})"
    print(f"  {name}: processor {statistics.median(clocks):.0f} ({max(clocks):.0f}), wall {wall}; {found}", flush=True)


async def measure_all(conn: Connection, calls: int) -> None:
    """The reads of the pages of dead letters, of their dialogs and of the slowest steps."""
    first = (await read_dead_letters(conn)).items[0]
    cause = JobFilter(
        statuses=("dead_letter",),
        job_type=first.job_type,
        error_type=first.error_type,
        error_pattern=first.error_pattern,
    )

    async def causes(tenant_id: UUID | None = None) -> str:
        groups = await read_dead_letters(conn, tenant_id=tenant_id)
        return f"{len(groups.items)} causes, {groups.count:,} jobs"

    async def preview(job_filter: JobFilter) -> str:
        found = await preview_bulk_action(conn, "retry", job_filter, actor=ME)
        return f"{found.count:,} jobs, complete: {found.complete}"

    async def steps() -> str:
        found = await read_step_times(conn, StepTimesQuery())
        return f"{len(found.items)} steps of {found.runs:,} runs"

    tenant_id = first.tenants[0].tenant_id
    await measure(conn, "causes, all tenants", calls, causes)
    await measure(conn, "causes, one tenant", calls, lambda: causes(tenant_id))
    await measure(conn, "preview of a cause", calls, lambda: preview(cause))
    await measure(conn, "preview of all", calls, lambda: preview(JobFilter(statuses=("dead_letter",))))
    await measure(conn, "slowest steps of a week", calls, steps)


async def main() -> None:
    """Load, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.operator_pages", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the server stays")
    parser.add_argument("--dead-letters", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--calls", type=int, default=7)
    chosen = parser.parse_args()
    configure_logs("error")
    server = await start_embedded(chosen.folder)
    try:
        name = f"pages_{chosen.dead_letters}_{chosen.runs}"
        admin = await connect(server.url("postgres"))
        exists = await admin.fetchval("select exists (select from pg_database where datname = $1)", name)
        if not exists:
            await admin.execute(f"create database {name}")
        await admin.close()
        url = at_database(server.url("postgres"), name)
        if not exists:
            await migrate(url)
            await load(url, chosen.dead_letters, chosen.runs)
        for holds in (False, True):
            print(f"with a held snapshot: {holds}")
            async with held_snapshot(url) if holds else nullcontext():
                conn = await connect(url)
                await measure_all(conn, chosen.calls)
                await conn.close()
    finally:
        server.release()


if __name__ == "__main__":
    uvloop.run(main())
