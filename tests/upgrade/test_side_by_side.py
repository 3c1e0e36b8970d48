"""Programs of two versions on one database, as while machines are upgraded one by one."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from atlas.db.migrations import Migration, load_migrations
from atlas.db.pool import Pool
from atlas.db.sql_functions import functions_hash
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.workflows.intents import NewIntent, request_workflows
from tests.cli.conftest import environment, run
from tests.support import ALICE, ROOT, until

JOBS, RUNS = 120, 20
ATLAS = [sys.executable, "-P", "-m", "atlas.cli.main"]
APP = """
import asyncio
import atlas
from atlas import JobContext, RetryAfter, Run, job, workflow

@job("upgrade.work")
async def work(input: dict, ctx: JobContext) -> dict[str, str]:
    await asyncio.sleep(0.05)
    if input["fails"] and ctx.attempt == 1:
        raise RetryAfter(0)
    return {"by": atlas.__file__}

@workflow("upgrade.steps")
async def steps(run: Run, input: dict) -> dict[str, str]:
    for number in range(3):
        await run.step(f"step {number}", pause)
    await run.job("last", "upgrade.work", {"fails": False})
    return {"by": atlas.__file__}

async def pause() -> None:
    await asyncio.sleep(0.05)
"""
UNENDED = "select count(*) from atlas.jobs where status in ('queued', 'running')"
ENDED_BY = """
select output->>'by' as by, count(*) filter (where job_type = 'upgrade.work') as jobs,
  count(*) filter (where job_type = 'ENGINE_RUN') as runs
from atlas.jobs where status = 'succeeded' group by 1"""


async def record(owner, migrations: Iterable[Migration], functions: str) -> None:
    """Record these as what `atlas migrate` applied and installed."""
    await owner.execute("delete from atlas._prisma_migrations")
    await owner.executemany(
        "insert into atlas._prisma_migrations (id, checksum, migration_name, finished_at) values ($1, $2, $3, now())",
        [(migration.name[:36], migration.checksum, migration.name) for migration in migrations],
    )
    await owner.execute(
        "update atlas.system_state set value = value || jsonb_build_object('sha256', $1::text) where key = 'functions'",
        functions,
    )


@asynccontextmanager
async def program(source: Path, *arguments: str, folder: Path, url: str) -> AsyncIterator[None]:
    """A program of the package in `source`, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *(*ATLAS, *arguments),
        cwd=folder,
        env=environment(folder / "home", DATABASE_URL=url, PYTHONPATH=str(source), ATLAS_LOG_LEVEL="error"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
        assert process.returncode is None, f"{arguments} of {source} ended by itself"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def enqueue_some(pool: Pool) -> None:
    """Ordinary jobs, of which some fail at first, and runs of a workflow."""
    async with pool.acquire() as conn, conn.transaction():
        jobs = [NewJob("upgrade.work", {"fails": n % 5 == 0}, tenant_id=SYSTEM_TENANT) for n in range(JOBS // 4)]
        await enqueue_many(conn, jobs, actor=ALICE)
        asked = [NewIntent("upgrade.steps") for _ in range(RUNS // 4)]
        await request_workflows(conn, SYSTEM_TENANT, asked, requested_by=ALICE)


@pytest.mark.slow
async def test_programs_of_two_versions_end_all_jobs_and_the_audit_log_is_whole(
    database_url, owner, pool, version_before, tmp_path
):
    (tmp_path / "flows.py").write_text(APP)
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ALICE)
    worker = ("worker", "--all", "--app", "flows", "--concurrency", "4")
    start = partial(program, folder=tmp_path, url=database_url)
    async with start(ROOT, *worker), AsyncExitStack() as before:
        await until(lambda: pool.fetchval("select exists (select from atlas.workflows where key = 'upgrade.steps')"))
        # Some migrations of that version were changed later. It sees what a version before sees now that none is changed
        # any more: its own migrations, one that it does not know, and functions that are not its own.
        old = load_migrations(version_before / "atlas" / "migrations")
        await record(owner, [*old, Migration("20990101000000_next", "")], "next")
        await before.enter_async_context(start(version_before, *worker))
        await before.enter_async_context(start(version_before, "scheduler"))
        await until(lambda: pool.fetchval("select count(*) = 2 from atlas.job_workers where dead_at is null"))
        # On a busy machine one of them may take all runs of a round.
        for rounds in range(1, 10):
            for _ in range(4):
                await enqueue_some(pool)
            # A run has a job of its own, and one that it starts.
            enqueued = rounds * (JOBS + 2 * RUNS)
            await until(lambda count=enqueued: pool.fetchval("select count(*) = $1 from atlas.jobs", count))
            await until(lambda: pool.fetchval(f"select ({UNENDED}) = 0"))
            ended = {Path(row["by"]).parents[1]: row for row in await pool.fetch(ENDED_BY)}
            if len(ended) == 2 and all(row["jobs"] and row["runs"] for row in ended.values()):
                break

    await record(owner, load_migrations(), functions_hash())
    assert ended.keys() == {ROOT, version_before}
    assert sum(row["jobs"] for row in ended.values()) == rounds * (JOBS + RUNS)
    assert all(row["jobs"] and row["runs"] for row in ended.values())
    verify = [*ATLAS, "audit", "verify", "--state"]
    verified = await run(verify, cwd=tmp_path, env=environment(tmp_path / "home", DATABASE_URL=database_url))
    assert verified.code == 0, verified
