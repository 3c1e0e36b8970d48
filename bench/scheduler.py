"""Ten thousand schedules: how long a scheduler takes to be ready, what it holds in memory, how late it fires.

One scheduler in this process, on an embedded Postgres with its ordinary settings (a commit is on disk). The schedules
are all different, over seven zones, spread over the day. Ready is when the scheduler leads. Lateness is the time from a
full minute until a job of it is in the table; the burst lets every trigger be due at once.

    python -m bench.scheduler [--triggers 10000] [--minutely 200]
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import uvloop

from atlas.actors import system
from atlas.db.migrations import migrate
from atlas.db.pool import Pool, open_pool
from atlas.engine.jobs.switches.gate import switch
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.scheduler.firing import TriggerTask
from atlas.scheduler.leader import Leader
from atlas.scheduler.tasks import TaskScheduler

START_LIMIT_SECONDS = 3.0
LATE_LIMIT_SECONDS = 1.0
BURST_LIMIT_SECONDS = 10.0
ACTOR = system("bench")
ZONES = (
    *(
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Tokyo",
        "Australia/Lord_Howe",
        "America/Sao_Paulo",
        "Africa/Cairo",
    ),
)
ADD = """
insert into atlas.job_triggers (tenant_id, label, trigger_type, cron_expr, timezone, job_type, next_fire_at, created_by)
select '00000000-0000-7000-8000-000000000001', 'bench ' || n, 'schedule',
  (n % 60) || ' ' || (n / 60 % 24) || ' * * *', ($2::text[])[1 + n / 1440 % cardinality($2::text[])], 'bench.nothing',
  clock_timestamp() + n * interval '1 day' / $1, 'bench'
from generate_series(0, $1::int - 1) n"""
ADD_MINUTELY = """
insert into atlas.job_triggers (tenant_id, label, trigger_type, cron_expr, job_type, next_fire_at, created_by)
select '00000000-0000-7000-8000-000000000001', 'minutely ' || n, 'schedule', '* * * * *', 'bench.minutely',
  date_trunc('minute', clock_timestamp()) + interval '1 minute', 'bench'
from generate_series(1, $1::int) n"""
DUE_AT_ONCE = """
update atlas.job_triggers
set cron_expr = '0 * * * *', timezone = null, next_fire_at = date_trunc('hour', clock_timestamp())"""
LATE = """
select extract(epoch from j.created_at - f.due_at)::float8
from atlas.trigger_fires f join atlas.jobs j on j.id = f.job_id where j.job_type = 'bench.minutely'"""


async def run(pool: Pool, url: str, *, triggers: int, minutely: int) -> dict[str, Any]:
    """Start a scheduler over that many triggers, and measure it."""
    await pool.execute(ADD, triggers, ZONES)
    await pool.execute("update atlas.job_triggers set next_fire_at = clock_timestamp() + interval '1 day'")
    process = psutil.Process()
    before, began = process.memory_info().rss, time.perf_counter()
    async with _running(pool, url) as firing:
        ready = time.perf_counter() - began
        held = (process.memory_info().rss - before) / 2**20
        lateness = await _lateness(pool, minutely)
        burst = await _burst(pool, firing, triggers)
    return {
        "triggers": triggers,
        "start_seconds": round(ready, 3),
        "start_limit_seconds": START_LIMIT_SECONDS,
        "memory_mb": round(held, 1),
        "minutely": minutely,
        "lateness_median_seconds": round(statistics.median(lateness), 3),
        "lateness_worst_seconds": round(max(lateness), 3),
        "lateness_limit_seconds": LATE_LIMIT_SECONDS,
        "burst_seconds": round(burst, 2),
        "burst_limit_seconds": BURST_LIMIT_SECONDS,
    }


@asynccontextmanager
async def _running(pool: Pool, url: str) -> AsyncIterator[TriggerTask]:
    """What fires triggers in a scheduler that leads."""
    stop, tasks = asyncio.Event(), TaskScheduler()
    leader = Leader(url, tasks)
    firing = TriggerTask(pool, leader, tasks)
    running = asyncio.create_task(tasks.run(stop))
    while not leader.leads:
        await asyncio.sleep(0.005)
    yield firing
    stop.set()
    await running


async def _lateness(pool: Pool, minutely: int) -> list[float]:
    """Seconds from a full minute to each of its jobs."""
    await pool.execute(ADD_MINUTELY, minutely)
    while len(rows := await pool.fetch(LATE)) < minutely:
        await asyncio.sleep(0.25)
    await pool.execute("delete from atlas.job_triggers where cron_expr = '* * * * *'")
    return [row[0] for row in rows]


async def _burst(pool: Pool, firing: TriggerTask, triggers: int) -> float:
    """Seconds until every trigger has fired that is due at once."""
    await pool.execute("update atlas.scheduler_leader set outages = '{}'")
    await pool.execute(DUE_AT_ONCE)
    started = time.perf_counter()
    firing.task.wake()
    while await pool.fetchval("select count(*) from atlas.jobs where job_type = 'bench.nothing'") < triggers:
        await asyncio.sleep(0.05)
    return time.perf_counter() - started


async def _main(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="atlas-bench-") as folder:
        server = await start_embedded(Path(folder))
        try:
            url = server.url("postgres")
            await migrate(url)
            pool = await open_pool(url)
            async with pool.acquire() as conn:
                await switch(conn, online=True, actor=ACTOR)
            figures = await run(pool, url, triggers=arguments.triggers, minutely=arguments.minutely)
            await pool.close()
            return figures
        finally:
            server.release()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print one JSON document, and fail beyond a limit."""
    parser = argparse.ArgumentParser(description="Ten thousand schedules: start, memory, lateness.")
    parser.add_argument("--triggers", type=int, default=10_000)
    parser.add_argument("--minutely", type=int, default=200)
    configure_logs("warning")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(_main(parser.parse_args(argv)))
    print(json.dumps(figures, indent=2))
    is_late = figures["lateness_worst_seconds"] >= LATE_LIMIT_SECONDS
    is_slow = figures["start_seconds"] >= START_LIMIT_SECONDS or figures["burst_seconds"] >= BURST_LIMIT_SECONDS
    return 1 if is_late or is_slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
