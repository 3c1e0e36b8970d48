"""`atlas migrate` beside programs that enqueue and run jobs: they wait for its locks, and nothing fails or is lost."""

import asyncio
from itertools import count
from typing import Any

import asyncpg
import pytest

from atlas import job
from atlas.db.migrations import FUNCTIONS, Migration, load_migrations, migrate
from atlas.db.pool import open_pool
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.workers.worker import Worker, WorkerOptions
from tests.support import ALICE, until

TYPE = "upgrade.nothing"
NEXT = [
    Migration(
        "20990101000000_columns",
        "alter table jobs add column flavour text default 'plain'; alter table job_attempts add column note text",
    ),
    Migration(
        "20990102000000_index",
        "-- Outside of a transaction.\ncreate index concurrently jobs_flavour on jobs (flavour) where flavour <> 'plain';",
    ),
]


@job(TYPE)
async def nothing(input: dict[str, Any]) -> None:
    """A job that only passes through."""


@pytest.mark.long
async def test_migrate_runs_beside_busy_programs_and_nothing_fails_or_is_lost(database_url, owner, monkeypatch):
    monkeypatch.setattr("atlas.db.migrations.LOCK_SECONDS", 1)
    monkeypatch.setattr("atlas.db.migrations.REST_SECONDS", 0.2)
    monkeypatch.setattr("atlas.db.migrations.load_migrations", lambda: [*load_migrations(), *NEXT])
    await owner.execute("""update atlas.system_state set value = value || '{"sha256": ""}' where key = 'functions'""")
    pool = await open_pool(database_url, size=6)
    worker = Worker(pool, database_url, WorkerOptions([TYPE], concurrency=10, poll=0.1))
    stop = asyncio.Event()

    async def enqueue() -> int:
        for number in count(1):
            async with pool.acquire() as conn:
                await enqueue_many(conn, [NewJob(TYPE, {}, tenant_id=SYSTEM_TENANT) for _ in range(5)], actor=ALICE)
            await asyncio.sleep(0.02)
            if stop.is_set():
                return number * 5
        raise AssertionError

    async def finishes(jobs: int) -> None:
        before = worker.finished
        await until(lambda: worker.finished >= before + jobs)

    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ALICE)
    running, enqueuing = asyncio.create_task(worker.run()), asyncio.create_task(enqueue())
    dump = await asyncpg.connect(database_url)
    try:
        await finishes(20)
        async with dump.transaction():
            await dump.fetch("select from atlas.jobs limit 1")
            migrating = asyncio.create_task(migrate(database_url))
            await until(lambda: owner.fetchval("select exists (select from pg_locks where not granted)"))
            await finishes(100)  # between its attempts
            assert not migrating.done()
        assert await migrating == [*(one.name for one in NEXT), FUNCTIONS]
        await finishes(20)
        stop.set()
        enqueued = await enqueuing
        await until(lambda: worker.finished >= enqueued)
    finally:
        await dump.close()
        worker.stop()
        await running
        await pool.close()

    ended = await owner.fetch("select status::text, attempt_count, count(*) from atlas.jobs group by 1, 2")
    assert [tuple(row) for row in ended] == [("succeeded", 1, enqueued)]
    assert await owner.fetchval("select indisvalid from pg_index where indexrelid = 'atlas.jobs_flavour'::regclass")
