"""How long `GET /jobs` and `GET /jobs/brief` take over a long history, by filter and order, for operators and tenants.

Each history has this many jobs over this many tenants, of very different sizes, and all statuses among each other. The
calls go through the whole API without the network; operators and tenants take turns, as they do on one installation.
Beside the time stands the processor time of the API and of Postgres, which other work on the machine changes little.

    python -m bench.lists [--jobs 1000000 10000000] [--tenants 3 200] [--calls 40] [--folder DIR] [--page-cost 4]
                          [--filters TEXT]

With `--folder` the server and its histories stay there, and the next call measures without making them again.
"""

import argparse
import asyncio
import contextlib
import math
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import uvloop
from rich.console import Console
from rich.table import Table

from atlas.actors import system
from atlas.api.app import create_app
from atlas.api.limits.rates import Rates
from atlas.cli.programs.long_running import relax_garbage_collection
from atlas.db.migrations import migrate
from atlas.db.pool import connect, open_pool
from atlas.engine.access.tokens import add_token
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.tenants.tenants import find_tenant
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.settings import load_settings
from bench.peers.databases import at_database

ME = system("bench")
PIECE = 250_000
GROUP = UUID("00000000-0000-7000-8000-00000000000a")
RUN = UUID("00000000-0000-7000-8000-00000000000b")
HOST = UUID("00000000-0000-7000-8000-00000000000c")

TENANTS = """
insert into atlas.tenants (id, slug, name)
select pg_temp.tenant_id(n), 't' || n, 't' || n from generate_series(0, $1::int - 1) n"""
# The first tenant has a sixth of the jobs of two hundred tenants, and two thirds of those of three. Of a thousand jobs
# 960 succeeded, 20 failed, half of them for good, 6 were canceled, 10 are queued, half of them for later, and some run.
# A thousandth was started by one run, and the last 10,000 but some are a group.
COLUMNS = """id, tenant_id, job_type, status, input, error, created_at, started_at, finished_at,
  dead_lettered_at, claimed_by, next_retry_at, attempt_count, priority, correlation_id, group_id, parent_run_id,
  host_id, source"""
ROWS = """
select pg_temp.timed_id(at, i), pg_temp.tenant_id(tenant), 'bench.' || i % 20, status::atlas.job_status,
  '{"to": "ann@example.com", "subject": "Hello", "text": "It works.", "n": 1}'::jsonb,
  case when status in ('failed', 'canceled') then jsonb_build_object('type', 'TimeoutError', 'message',
    'No answer from https://provider.example/' || i || ' in 30 s.' || repeat(' The host refused.', 10)) else '{}' end,
  at, case when status not in ('queued', 'canceled') then at end,
  case when status in ('succeeded', 'failed', 'canceled') then at + interval '1 second' end,
  case when status = 'failed' and i % 2 = 0 then at + interval '1 second' end,
  case when status <> 'queued' then 'worker-' || i % 50 end,
  case when status = 'queued' and i % 2 = 0 then now() + interval '30 days' end,
  case when status in ('queued', 'canceled') then 0 else 1 end, i % 5,
  case when i % 3 = 0 then 'request-' || i / 30 end,
  case when $2::bigint - i between 5001 and 15000 then $3::uuid end,
  case when i % 1000 = 0 then $4::uuid end, case when i % 10007 = 0 then $5::uuid end,
  case when i % 20011 = 0 then 'event' else 'manual' end::atlas.job_source
from (
  select i, {AT} as at,
    floor($6::int * power((hashint8(i)::bigint + 2147483648) / 4294967296.0, 3))::int as tenant,
    case when die < 960 then 'succeeded' when die < 980 then 'failed' when die < 986 then 'canceled'
         when die < 996 then 'queued' when $2::bigint - i < 200000 then 'running' else 'succeeded' end as status
  from (select i, abs(hashint8(i + 4611686018427387904)::bigint) % 1000 as die
        from generate_series($1::bigint + 1, least($1::bigint + {PIECE}, $2::bigint)) i) x) x"""
AT = "now() - ($2::bigint - i) * interval '10 milliseconds'"
TENANT_ID = """
create function pg_temp.tenant_id(n int) returns uuid language sql immutable as $$
  select ('00000000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid
$$"""
TIMED_ID = """
create function pg_temp.timed_id(at timestamptz, i bigint) returns uuid language sql immutable as $$
  select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(i % 4096), 3, '0')
    || '8' || lpad(to_hex(i), 15, '0'))::uuid
$$"""
INDEXES = """
select indexname, indexdef from pg_indexes
where schemaname = 'atlas' and tablename = 'jobs' and indexname <> 'jobs_pkey'"""
BACKENDS = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"

FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    **{f"status {status}": {"status": status} for status in ("queued", "waiting", "running", "succeeded", "failed")},
    "status dead_letter": {"status": "dead_letter"},
    "status canceled": {"status": "canceled"},
    "four statuses": {"status": ["succeeded", "failed", "queued", "dead_letter"]},
    "type": {"job_type": "bench.7"},
    "unknown type": {"job_type": "unknown"},
    "queued, type": {"status": "queued", "job_type": "bench.7"},
    "failed, type": {"status": "failed", "job_type": "bench.7"},
    "failed, unknown type": {"status": "failed", "job_type": "unknown"},
    "succeeded, unknown type": {"status": "succeeded", "job_type": "unknown"},
    "source": {"source": "event"},
    "worker": {"worker_id": "worker-7"},
    "unknown worker": {"worker_id": "unknown"},
    "host": {"host_id": str(HOST)},
    "error type": {"error_type": "TimeoutError"},
    "error text": {"error_text": "refused"},
    "unknown error text": {"error_text": "unknown"},
    "unknown error pattern": {"error_pattern": "unknown"},
    "created before": {"created_before": "2020-01-01T00:00:00Z"},
    "created after": {"created_after": "2020-01-01T00:00:00Z"},
    "finished before": {"finished_before": "2020-01-01T00:00:00Z"},
    "finished after": {"finished_after": "2020-01-01T00:00:00Z"},
    "correlation id": {"correlation_id": "request-1000"},
    "unknown correlation id": {"correlation_id": "unknown"},
    "id prefix": {"id_prefix": "01"},
    "queued, id prefix": {"status": "queued", "id_prefix": "01"},
    "parent run": {"parent_run_id": str(RUN)},
    "parent run, failed": {"parent_run_id": str(RUN), "status": "failed"},
    "group": {"group_id": str(GROUP)},
    "group, failed": {"group_id": str(GROUP), "status": "failed"},
    "offset 10,000": {"offset": 10_000},
    "dead letters, offset 10,000": {"status": "dead_letter", "offset": 10_000},
    "succeeded, offset 10,000": {"status": "succeeded", "offset": 10_000},
    "unknown type, offset 10,000": {"job_type": "unknown", "offset": 10_000},
    "queued, offset 1,000": {"status": "queued", "offset": 1_000},
    "200 jobs": {"limit": 200},
    "200 dead letters": {"status": "dead_letter", "limit": 200},
    "by end": {"order": "ended"},
    "by end, canceled": {"order": "ended", "status": "canceled"},
    "by end, type": {"order": "ended", "job_type": "bench.7"},
    "by end, unknown type": {"order": "ended", "job_type": "unknown"},
    "by end, unknown error text": {"order": "ended", "error_text": "unknown"},
    "by end, finished before": {"order": "ended", "finished_before": "2020-01-01T00:00:00Z"},
}


@dataclass(frozen=True, slots=True)
class JobHistory:
    """A database with this many jobs over this many tenants, and tokens of an operator and of its largest tenant."""

    url: str
    jobs: int
    tenants: int
    tokens: dict[str, str]


def rows_of(piece: int, at: str) -> str:
    """The statement that makes the next jobs, this many, each created at the time that `at` computes."""
    return ROWS.replace("{PIECE}", str(piece)).replace("{AT}", at)


async def make_history(url: str, jobs: int, tenants: int, *, at: str = AT) -> None:
    """Fill the empty tables of a database. Indexes are made afterwards, which takes a third of the time."""
    owner = await connect(url)
    try:
        await owner.execute("set synchronous_commit = off; set session_replication_role = replica")
        await owner.execute("set maintenance_work_mem = '1GB'; set search_path = atlas, public")
        await owner.execute(TENANT_ID + ";" + TIMED_ID)
        await owner.execute(TENANTS, tenants)
        indexes = await owner.fetch(INDEXES)
        await owner.execute(f"drop index {', '.join(index['indexname'] for index in indexes)}")
        fill = f"insert into atlas.jobs ({COLUMNS}) {rows_of(PIECE, at)}"
        for done in range(0, jobs, PIECE):
            await owner.execute(fill, done, jobs, GROUP, RUN, HOST, tenants)
        for index in indexes:
            await owner.execute(index["indexdef"])
        await owner.execute("vacuum analyze atlas.jobs")
    finally:
        await owner.close()


@asynccontextmanager
async def history(server: str, jobs: int, tenants: int, *, keep: bool) -> AsyncIterator[JobHistory]:
    """The history of this size, made unless it was kept."""
    name = f"lists_{jobs}_{tenants}"
    admin = await connect(server)
    url = at_database(server, name)
    try:
        if not await admin.fetchval("select true from pg_database where datname = $1", name):
            await admin.execute(f"create database {name}")
            await migrate(url)
            await make_history(url, jobs, tenants)
        await migrate(url)
        yield JobHistory(url, jobs, tenants, await make_tokens(url, tenants))
    finally:
        if not keep:
            await admin.execute(f"drop database if exists {name} with (force)")
        await admin.close()


async def make_tokens(url: str, tenants: int) -> dict[str, str]:
    """Tokens of an operator, and of the largest and the smallest tenant."""
    pool = await open_pool(url, size=1)
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ME)
        largest = await find_tenant(conn, "t0")
        smallest = await find_tenant(conn, f"t{tenants - 1}")
        _, operator = await add_token(conn, subject="o", role="operator", actor=ME)
        _, large = await add_token(conn, subject="l", role="tenant_admin", tenant=largest, actor=ME)
        _, small = await add_token(conn, subject="s", role="tenant_admin", tenant=smallest, actor=ME)
    await pool.close()
    return {"operator": operator, "largest tenant": large, "smallest tenant": small}


Measured = dict[tuple[str, str], list[tuple[float, float]]]


async def measure(chosen: JobHistory, *, calls: int, page_cost: float, part: str) -> Measured:
    """Milliseconds and processor milliseconds of each call, by filter and caller, over both lists in turn."""
    owner = await connect(chosen.url)
    name = await owner.fetchval("select current_database()")
    await owner.execute(f"alter database {name} set random_page_cost = {page_cost}")
    pool = await open_pool(chosen.url, size=4)
    app = create_app(load_settings(), pool, chosen.url, rates=Rates(token=1e9, tenant=1e9))
    times: Measured = {}
    transport = httpx.ASGITransport(app)
    # As `atlas api` does: a pause of 100 ms would fall into some call.
    relax_garbage_collection()
    async with httpx.AsyncClient(transport=transport, base_url="http://bench/api/v1", timeout=60) as client:
        # The first calls of each connection plan, and fill the caches.
        for call in range(-2, calls):
            backends = [row["pid"] for row in await owner.fetch(BACKENDS)]
            for name, query in ((name, query) for name, query in FILTERS.items() if part in name):
                for caller, token in chosen.tokens.items():
                    path = "/jobs" if call % 2 else "/jobs/brief"
                    began, spent = time.perf_counter(), _processor_ms(backends)
                    response = await client.get(path, params=query, headers={"Authorization": f"Bearer {token}"})
                    took = (time.perf_counter() - began) * 1000, _processor_ms(backends) - spent
                    if response.status_code not in (200, 422):
                        raise RuntimeError(f"{name} of the {caller}: {response.text}")
                    if call >= 0:
                        # 422 says that it took too long.
                        ended = response.status_code == 200
                        times.setdefault((name, caller), []).append(took if ended else (math.inf, took[1]))
    await pool.close()
    await owner.close()
    return times


def _processor_ms(backends: list[int]) -> float:
    """What this process and those of the server have used."""
    used = time.process_time_ns()
    for pid in backends:
        with contextlib.suppress(FileNotFoundError):
            used += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return used / 1e6


def _shown(calls: list[tuple[float, float]]) -> str:
    times, processor = (sorted(column) for column in zip(*calls, strict=True))
    last = math.ceil(len(calls) * 0.95) - 1
    return f"{statistics.median(times):.0f} / {times[last]:.0f} ({processor[last]:.0f})"


def as_table(measured: dict[str, Measured]) -> Table:
    """A row for each filter and caller, a column for each history."""
    table = Table("p50 / p95 (p95 of processor time) in ms", *measured)
    for name, caller in next(iter(measured.values())):
        table.add_row(f"{name}, {caller}", *(_shown(times[name, caller]) for times in measured.values()))
    return table


async def main() -> None:
    """Make the histories, measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.lists", description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--tenants", type=int, nargs="+", default=[3, 200])
    parser.add_argument("--calls", type=int, default=40, help="calls of each filter by each caller")
    parser.add_argument("--page-cost", type=float, default=1.1, help="random_page_cost; 4 is Postgres's own")
    parser.add_argument("--filters", default="", help="only those whose names have this in them")
    parser.add_argument("--folder", type=Path, help="where the server and its histories stay")
    chosen = parser.parse_args()
    configure_logs("error")
    measured = {}
    with tempfile.TemporaryDirectory() as temporary:
        server = await start_embedded(chosen.folder or Path(temporary))
        try:
            for jobs in chosen.jobs:
                for tenants in chosen.tenants:
                    address = server.url("postgres")
                    async with history(address, jobs, tenants, keep=chosen.folder is not None) as past:
                        bounds = {"calls": chosen.calls, "page_cost": chosen.page_cost, "part": chosen.filters}
                        times = await measure(past, **bounds)
                        measured[f"{jobs:,} jobs, {tenants} tenants"] = times
        finally:
            server.release()
    Console(width=200).print(as_table(measured))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
