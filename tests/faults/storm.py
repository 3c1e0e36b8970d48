"""A storm: all capabilities at once on a server of its own, and disasters that a seed chooses.

Two workers, a scheduler and an API run as they do in an installation. Where PgBouncer is installed, one worker and the API
are behind one in transaction mode and the scheduler behind one in session mode. What ends is started again. When the
disasters are over all work must end, and the judge reads the effect log.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from atlas.db.migrations import migrate
from atlas.db.pool import connect
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from tests.faults.capability import all_done, beside_all, types_of
from tests.faults.clients import ADDRESS
from tests.faults.deliveries import DELIVERY_SETTINGS
from tests.faults.effects import VARIABLE, note, read_effects
from tests.faults.judge import Evidence, judge
from tests.faults.mix import MIX
from tests.faults.steering import TRY_AGAIN
from tests.faults.storm_server import DATABASE, StormServer
from tests.pgbouncer import PROGRAM as PGBOUNCER
from tests.pgbouncer import PgBouncer, pooler_of, running
from tests.support import DANA, ROOT, free_port, given_tenant

JOBS_OF_A_WAVE = 30
TENANTS = 12
MAX_SECONDS = 300.0
WORKER = ("worker", "--types", types_of(MIX), "--app", "tests.faults.mix", "--concurrency", "4")
SCHEDULER = ("scheduler", "--app", "tests.faults.mix")
LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
)
OPEN = """
select job_type || ' ' || status::text || ' at attempt ' || attempt_count from atlas.jobs
where status in ('queued', 'running') order by id limit 6"""
DONE = f"{all_done(MIX)} and not exists (select from atlas.job_groups where ended_at is null)"


@dataclass
class Service:
    """A program that is started again whenever it ends."""

    name: str
    arguments: tuple[str, ...]
    env: dict[str, str]
    folder: Path
    starts: int = 0
    process: "asyncio.subprocess.Process | None" = None
    is_ending: bool = False

    async def run(self) -> None:
        while not self.is_ending:
            self.starts += 1
            with (self.folder / f"{self.name} {self.starts}.log").open("wb") as log:
                self.process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "atlas.cli.main", *self.arguments),
                    cwd=self.folder,
                    env=self.env,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            await self.process.wait()
            await asyncio.sleep(0.2)

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


@dataclass
class Storm:
    """The installation that is struck."""

    folder: Path
    server: StormServer
    dice: Random
    services: list[Service] = field(default_factory=list)
    poolers: list[PgBouncer] = field(default_factory=list)
    tenants: list[UUID] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    held: AsyncExitStack = field(default_factory=AsyncExitStack)
    # The address of the scheduler, by which the keys that it signs with are found.
    scheduler_url: str = ""
    jobs: int = 0
    # How often the server has said that its disk is full.
    full: int = 0

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def effects(self) -> Path:
        return self.folder / "effects"

    async def connect(self) -> Any:
        """A connection, as soon as the server has one."""
        async with asyncio.timeout(120):
            while True:
                with suppress(*TRY_AGAIN):
                    return await connect(self.url, statement_seconds=30)
                await asyncio.sleep(0.2)

    async def query(self, sql: str) -> Any:
        """Ask the server, again while it cannot be reached."""
        while True:
            conn = await self.connect()
            try:
                return await conn.fetchval(sql)
            except TRY_AGAIN:
                await asyncio.sleep(0.2)
            finally:
                conn.terminate()


async def run_storm(folder: Path, seed: int, count: int) -> tuple[Storm, list[str]]:
    """Strike so many times. Returns what happened, and what was broken."""
    from tests.faults.disasters import DISASTERS, why_not

    server = StormServer()
    storm = Storm(folder, server, Random(seed))
    storm.skipped = {name: reason for name in DISASTERS if (reason := why_not(name)) is not None}
    possible = [name for name in sorted(DISASTERS) if name not in storm.skipped]
    keeping = None
    try:
        await server.start()
        await migrate(storm.url)
        await _give(storm)
        keeping = asyncio.create_task(server.keep_running())
        async with beside_all(MIX, storm.url, folder), _serving(storm):
            for name in _order(storm.dice, possible, count):
                await _add_wave(storm)
                await asyncio.sleep(storm.dice.uniform(0.5, 2.0))
                storm.happened.append(name)
                await DISASTERS[name](storm)
            await storm.held.aclose()
            # What failed in a turn that comes once in ten minutes is done at the next start.
            await restart_programs(storm)
            broken = await _wait_for_the_end(storm)
        conn = await storm.connect()
        evidence = Evidence(conn, read_effects(storm.effects), folder / "atlas", storm.scheduler_url)
        broken += await judge(evidence, tuple(law for capability in MIX for law in capability.laws))
        storm.jobs = await conn.fetchval("select count(*) from atlas.jobs")
        await conn.close()
        storm.full = server.log.count("No space left on device")
    finally:
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        await server.remove()
    return storm, broken


def _order(dice: Random, names: list[str], count: int) -> list[str]:
    """Every disaster once before any of them strikes again."""
    order: list[str] = []
    while len(order) < count:
        order += dice.sample(names, len(names))
    return order[:count]


async def _give(storm: Storm) -> None:
    conn = await connect(storm.url)
    await switch(conn, online=True, actor=DANA)
    for capability in MIX:
        await capability.give(conn)
    storm.tenants = [await given_tenant(conn, f"tenant-{n}") for n in range(TENANTS)]
    await conn.close()


async def _add_wave(storm: Storm) -> None:
    conn = await storm.connect()
    jobs = [NewJob("fault.effect", {"wave": n}, storm.tenants[n % TENANTS]) for n in range(JOBS_OF_A_WAVE)]
    await enqueue_many(conn, [*jobs, *(NewJob("fault.keyed", {"customer": c}) for c in "abab")], actor=DANA)
    await conn.close()


@asynccontextmanager
async def _serving(storm: Storm) -> AsyncIterator[None]:
    """The programs, for as long as the block."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ATLAS_", "DATABASE_URL"))}
    env |= {"PYTHONPATH": str(ROOT), "ATLAS_LOG_LEVEL": "warning", "ATLAS_HOME": str(storm.folder / "atlas")}
    env |= {VARIABLE: str(storm.effects), "OUTBOUND_EMAIL_PROVIDER": "outbox", "DATABASE_URL": storm.url}
    env |= {"ATLAS_LEASE_SECONDS": "15", "ATLAS_GRACE_SECONDS": "2", **DELIVERY_SETTINGS}
    library = next((path for path in LIBRARIES if Path(path).exists()), None)
    async with AsyncExitStack() as opened:
        pooled, in_session = dict(env), dict(env)
        if PGBOUNCER is not None:
            urls = {}
            for mode in ("transaction", "session"):
                (storm.folder / mode).mkdir()
                pooler = pooler_of(storm.url, storm.folder / mode, mode=mode)
                urls[mode] = f"{opened.enter_context(running(pooler))}/{DATABASE}"
                storm.poolers.append(pooler)
            pooled |= {"DATABASE_URL": urls["transaction"], "ATLAS_LISTEN_DATABASE_URL": storm.url}
            in_session |= {"DATABASE_URL": urls["session"]}
        port = free_port()
        served = {**pooled, "ATLAS_HOST": "127.0.0.1", "ATLAS_PORT": str(port)}
        (storm.folder / ADDRESS).write_text(f"http://127.0.0.1:{port}")
        if library is not None:
            (storm.folder / "clock").write_text("+0")
            pooled |= {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(storm.folder / "clock")}
            pooled |= {"FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
        storm.scheduler_url = in_session["DATABASE_URL"]
        storm.services += [
            Service("worker", WORKER, env, storm.folder),
            Service("pooled worker", WORKER, pooled, storm.folder),
            Service("scheduler", SCHEDULER, in_session, storm.folder),
            Service("api", ("api",), served, storm.folder),
        ]
        tasks = [asyncio.create_task(service.run()) for service in storm.services]
        try:
            yield
        finally:
            for service in storm.services:
                service.is_ending = True
                service.send(signal.SIGCONT)
                service.send(signal.SIGTERM)
            _, late = await asyncio.wait(tasks, timeout=60)
            for service in storm.services:
                service.send(signal.SIGKILL)
            await asyncio.gather(*late, return_exceptions=True)


async def restart_programs(storm: Storm) -> None:
    """Stop each program as a deployment does; it is started again."""
    for service in storm.services:
        service.send(signal.SIGTERM)
        await asyncio.sleep(0.5)


async def _wait_for_the_end(storm: Storm) -> list[str]:
    with suppress(TimeoutError):
        async with asyncio.timeout(MAX_SECONDS):
            while not await storm.query(DONE):
                await asyncio.sleep(0.5)
            return []
    left = await storm.query(f"select string_agg(o.s, ', ') from ({OPEN}) o(s)")
    return [f"not done {MAX_SECONDS:.0f} s after the last disaster: {left}; see {storm.folder}"]


def note_kill(storm: Storm, pid: int) -> None:
    note("killed", path=storm.effects, pid=pid)
