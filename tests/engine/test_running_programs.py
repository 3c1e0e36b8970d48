"""Schedulers and APIs report their versions for as long as they run."""

import asyncio

from atlas.db.versions import running_versions
from atlas.engine.running_programs import report_running
from atlas.version import __version__


async def test_a_program_is_known_while_it_runs_and_others_are_forgotten_in_time(pool, conn):
    await conn.execute(
        """insert into atlas.running_programs (id, kind, version, hostname, seen_at)
        values (gen_random_uuid(), 'api', '0.0.1', 'vm', clock_timestamp() - interval '2 days')"""
    )
    ending = asyncio.Event()
    programs = [asyncio.create_task(report_running(pool, kind, ending)) for kind in ("scheduler", "api", "api")]
    async with asyncio.timeout(20):
        while await conn.fetchval("select count(*) from atlas.running_programs where version = $1", __version__) < 3:
            await asyncio.sleep(0.02)
    [found] = await running_versions(conn)
    assert str(found) == f"{__version__} (1 scheduler, 2 APIs)"

    ending.set()
    await asyncio.gather(*programs)
    assert await conn.fetchval("select count(*) from atlas.running_programs") == 0


async def test_a_program_goes_on_reporting_after_an_outage(pool, owner, monkeypatch):
    monkeypatch.setattr("atlas.engine.running_programs.REPORT_SECONDS", 0.05)
    await owner.execute("alter table atlas.running_programs rename to away")
    ending = asyncio.Event()
    program = asyncio.create_task(report_running(pool, "api", ending))
    await asyncio.sleep(0.2)
    await owner.execute("alter table atlas.away rename to running_programs")
    async with asyncio.timeout(20):
        while not await running_versions(owner):
            await asyncio.sleep(0.02)
    ending.set()
    await program
