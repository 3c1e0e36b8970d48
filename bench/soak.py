"""The soak: an hour of mixed load of 50 tenants, and what has drifted at its end. `python -m bench.soak --minutes 60`.

The time has six parts. In every second of them an idle transaction holds the xmin horizon. A scheduler seals, meters
and removes finished jobs, but none of the last hour. Fails if the last part is slower than the first, or if memory, or
the tables for each job that is kept, grow from cycle to cycle.
"""

import argparse
import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from atlas.cli.programs.long_running import atlas_argv
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.postgres.pg_ctl import server_pid
from bench.fairness import add_tenant
from bench.horizon.__main__ import HEAD, SETTINGS, show_window
from bench.horizon.holders import idle_transaction, no_holder
from bench.horizon.measure import WINDOW_SECONDS, LoadWindow, Measurement, Programs, joined
from bench.horizon.verdict import Criterion
from bench.jobs.ground import ground
from bench.peers.databases import connected

PARTS = 6
TENANTS = 50
MIN_RATE_RATIO = 0.95
MAX_P99_RATIO = 2.0
MAX_GROWTH = 1.3
# All but the audit log, which keeps what happened.
SIZES = """
select c.relname, pg_total_relation_size(c.oid) / 1024.0 from pg_class c
where c.relnamespace = 'atlas'::regnamespace and c.relkind = 'r' and c.relname not like 'audit%' order by 2 desc"""
KEPT = "select count(*) from atlas.jobs"
LARGEST = 4
# A part of the soak, in days: what has finished before is removed by the next pass of retention.
RETAIN = "update atlas.tenants set retention = jsonb_build_object('jobs', $1::float8)"


@dataclass
class KeptTables:
    """What the database keeps at the end of a part: jobs, and the kB of each table with its indexes."""

    jobs: int
    tables: dict[str, float]

    @property
    def kb_per_job(self) -> float:
        return sum(self.tables.values()) / max(self.jobs, 1)

    def __str__(self) -> str:
        largest = ", ".join(f"{name} {kb / 1024:,.0f} MB" for name, kb in list(self.tables.items())[:LARGEST])
        return f"{self.jobs:,} jobs are kept, {self.kb_per_job:.2f} kB each: {largest}"


async def soak(url: str, home: Path, postmaster: int, *, minutes: float, rate: float) -> list[Criterion]:
    """Run all parts, and compare the last with the first."""
    programs = Programs(
        ["-m", "bench.horizon.worker", url, "mixed"],
        lambda rate, seconds: ["-m", "bench.horizon.load", url, "mixed", str(rate), str(seconds)],
    )
    measurement = Measurement(url, postmaster, programs, show_window)
    parts: list[LoadWindow] = []
    kept: list[KeptTables] = []
    async with _scheduler(url, home), measurement.working() as worker:
        await measurement.offer(worker, "", rate, WINDOW_SECONDS)
        for number in range(PARTS):
            held = number % 2 == 1
            async with (idle_transaction if held else no_holder)(url):
                windows = await measurement.offer(worker, "held" if held else "free", rate, minutes * 60 / PARTS)
            parts.append(joined(windows))
            kept.append(await _kept(url))
            print(kept[-1])
    return list(judge(parts, kept))


async def _kept(url: str) -> KeptTables:
    async with connected(url) as conn:
        tables = {row["relname"]: float(row[1]) for row in await conn.fetch(SIZES)}
        return KeptTables(await conn.fetchval(KEPT), tables)


def judge(parts: list[LoadWindow], kept: list[KeptTables]) -> Iterator[Criterion]:
    """What has drifted: the last part beside the first, and the last cycle beside the first."""
    first, last = parts[0], parts[-1]
    rate = (last.done / last.seconds) / (first.done / first.seconds)
    yield Criterion("jobs/s, last part / first", rate, f">= {MIN_RATE_RATIO}", rate >= MIN_RATE_RATIO)
    p99 = float("inf") if last.p99 is None or not first.p99 else last.p99 / first.p99
    yield Criterion("start p99, last part / first", p99, f"<= {MAX_P99_RATIO}", p99 <= MAX_P99_RATIO)
    memory = last.worker_mb / parts[1].worker_mb
    yield Criterion("worker's memory, last cycle / first", memory, f"<= {MAX_GROWTH}", memory <= MAX_GROWTH)
    size = max(end.kb_per_job for end in kept[-2:]) / max(end.kb_per_job for end in kept[:2])
    yield Criterion("tables for each kept job, last cycle / first", size, f"<= {MAX_GROWTH}", size <= MAX_GROWTH)
    cpu = last.cpu_per_job / first.cpu_per_job
    yield Criterion("CPU per job, last part / first", cpu, f"<= {MAX_GROWTH}", cpu <= MAX_GROWTH)


@asynccontextmanager
async def _scheduler(url: str, home: Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *atlas_argv("scheduler"),
        env={**os.environ, "DATABASE_URL": url, "ATLAS_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def main(options: argparse.Namespace) -> bool:
    """On a server of its own. True if nothing drifted."""
    with tempfile.TemporaryDirectory() as home:
        server = await start_embedded(Path(home), settings=SETTINGS)
        try:
            async with ground(server.url("postgres"), "soak") as (pool, url):
                for number in range(TENANTS - 1):
                    await add_tenant(pool, f"t{number}")
                await pool.execute(RETAIN, options.minutes / PARTS / 1440)
                print(f"soak: {options.rate:,.0f} jobs/s of {TENANTS} tenants for {options.minutes} minutes\n{HEAD}")
                postmaster = server_pid(server.folder / "data")
                criteria = await soak(url, Path(home), postmaster, minutes=options.minutes, rate=options.rate)
        finally:
            server.release()
    table = Table("soak", "value", "bound", "")
    for criterion in criteria:
        word = "pass" if criterion.passed else "[red]FAIL[/]"
        table.add_row(criterion.name, f"{criterion.value:.2f}", criterion.bound, word)
    Console().print(table)
    return all(criterion.passed for criterion in criteria)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="of load; the first and the last sixth are compared")
    parser.add_argument("--rate", type=float, default=500, help="jobs offered each second")
    configure_logs("error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        raise SystemExit(0 if runner.run(main(parser.parse_args())) else 1)
