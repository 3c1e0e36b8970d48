"""A database that goes away and comes back under running workflows."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import atlas.workers.workflows
from atlas.actors import system
from atlas.db.migrations import migrate
from atlas.db.pool import connect, open_pool
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.workflows.intents import NewIntent, request_workflows, take_intents
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.postgres.cluster import start_embedded
from atlas.workers.worker import Worker, WorkerOptions
from tests.engine.workflows.flows import calls
from tests.support import PROOF, crash_server, some

RUNS, OUTAGES = (200, 5) if PROOF else (60, 1)
STEPS = 8
ACTOR = system("test")

ran: Counter[str] = Counter()
returned: set[str] = set()
violations: list[str] = []


@job("outage.nothing")
async def nothing(input: dict[str, Any]) -> None:
    """A child."""


@workflow("outage.steps")
async def steps(run: Run, input: dict[str, Any]) -> None:
    """Steps that take some time each; none may run again after it has returned."""
    for number in range(STEPS):
        name = f"{run.id} {number}"

        async def work(name: str = name) -> None:
            ran[name] += 1
            if name in returned:
                violations.append(name)
            await asyncio.sleep(0.05)

        await run.step(f"step {number}", work)
        returned.add(name)
    await run.now()
    await run.job("last", "outage.nothing")


@workflow("outage.refused")
async def refused(run: Run, input: dict[str, Any]) -> None:
    """Goes on whatever happens."""

    async def work(number: int) -> None:
        calls[f"work {number}"] += 1

    for number in range(3):
        try:
            await run.step(f"step {number}", work, number)
        except Exception:
            calls["caught"] += 1
    await run.sleep(0)


REFUSE = """
create function refuse() returns trigger language plpgsql as $$
begin
  raise exception 'refused' using errcode = '{code}';
end $$;
create trigger refuse before insert on atlas.workflow_steps for each row when (new.name = 'step 1') execute function refuse();
"""


@pytest.fixture
async def server(tmp_path):
    """A Postgres of one's own, to be stopped and started."""
    running = await start_embedded(tmp_path)
    conn = await connect(running.url("postgres"))
    await conn.execute("create database outage")
    await conn.close()
    await migrate(running.url("outage"))
    yield running
    running.release()


async def _outages(home: Path) -> None:
    """Stop Postgres at once and start it again, each time after a good part of the work."""
    for number in range(OUTAGES):
        async with asyncio.timeout(60):
            while len(returned) < (number + 1) * RUNS * STEPS // (OUTAGES + 2):
                await asyncio.sleep(0.02)
        await crash_server(home, down=0.3)


@pytest.mark.long
async def test_all_runs_end_though_postgres_is_stopped_and_started_under_them(server, tmp_path):
    assert atlas.workers.workflows
    url = server.url("outage")
    pool = await open_pool(url, size=10)
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ACTOR)
        asked = [NewIntent("outage.steps") for _ in range(RUNS)]
        await request_workflows(conn, SYSTEM_TENANT, asked, requested_by=ACTOR)
        await take_intents(conn, "engine")
    worker = Worker(pool, url, WorkerOptions(["ENGINE_RUN", "outage.nothing"], concurrency=100, poll=0.2, lease=20))
    task = asyncio.create_task(worker.run())
    try:
        await _outages(tmp_path)
        async with asyncio.timeout(120):
            while worker.finished < 2 * RUNS:
                await asyncio.sleep(0.05)
    finally:
        worker.stop()
        await task

    ended = await pool.fetchval(
        "select count(*) from atlas.jobs where status = 'succeeded' and job_type = 'ENGINE_RUN'"
    )
    recorded = await pool.fetchval(
        "select count(*) from atlas.workflow_steps where status = 'succeeded' and kind = 'step'"
    )
    twice = sum(1 for count in ran.values() if count > 1)
    print(
        f"outage: {RUNS} runs, {OUTAGES} stops, {ended} ended, {twice} steps ran twice, {len(violations)} of them after their record"
    )
    await pool.close()
    assert (ended, recorded) == (RUNS, RUNS * STEPS)
    assert violations == []


@pytest.mark.parametrize("code", some(["25006", "53100", "53200", "55P03", "57014", "42883"], every=3))
async def test_a_step_is_recorded_when_a_database_that_refused_to_write_takes_it_again(kit, owner, code):
    calls.clear()
    await owner.execute(REFUSE.format(code=code))
    run_id = await kit.ask("outage.refused")
    await kit.tick()
    task = asyncio.create_task(kit.work())
    while calls["work 1"] == 0:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    await owner.execute("drop trigger refuse on atlas.workflow_steps")
    await task

    assert (await kit.get(run_id)).status == "succeeded"
    assert calls == {"work 0": 1, "work 1": 1, "work 2": 1}


async def test_a_step_that_cannot_be_recorded_ends_the_run_though_its_code_would_go_on(kit, owner):
    calls.clear()
    await owner.execute(REFUSE.format(code="22003"))
    run_id = await kit.ask("outage.refused")
    await kit.tick()
    await kit.work()

    run = await kit.get(run_id)
    assert (run.status, run.error["message"]) == (
        "failed",
        "Step 'step 1' cannot be recorded: NumericValueOutOfRangeError: refused",
    )
    assert calls == {"work 0": 1, "work 1": 1, "caught": 2}
