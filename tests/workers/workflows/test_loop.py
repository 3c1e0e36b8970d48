"""The engine loop, and workers that do not have every workflow."""

import asyncio
from datetime import timedelta

import pytest

from atlas.engine.jobs.lists.find import get_job
from atlas.engine.workflows.approvals import list_approvals
from atlas.engine.workflows.find_workflows import list_workflows
from atlas.engine.workflows.registry import _registry
from atlas.workers.tick import tick
from atlas.workers.workflows import run_engine_loop, settle_intents
from tests.engine.workflows.flows import calls
from tests.support import until


@pytest.fixture
async def loop(kit):
    """An engine loop that polls so rarely that only notifications can wake it in time."""
    stop = asyncio.Event()
    task = asyncio.create_task(run_engine_loop(kit.pool, stop, url=kit.url, poll=30))
    async with asyncio.timeout(10):
        while await kit.pool.fetchval("select count(*) from atlas.system_state where key = 'engine_tick'") == 0:
            await asyncio.sleep(0.02)
        while (
            await kit.pool.fetchval("select count(*) from pg_stat_activity where application_name = 'atlas listener'")
            == 0
        ):
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    yield
    stop.set()
    async with asyncio.timeout(5):
        await task


async def test_a_request_is_taken_at_once_though_the_poll_is_far(kit, loop):
    run_id = await kit.ask("wf.plain")
    took = await until(lambda: kit.pool.fetchval("select exists (select from atlas.jobs where id = $1)", run_id))

    assert took < 5


async def test_requests_wait_while_atlas_is_offline_and_go_on_when_it_is_back(kit, loop):
    await kit.online(False)
    run_id = await kit.ask("wf.plain")
    await asyncio.sleep(0.3)
    assert await get_job(kit.pool, run_id) is None

    await kit.online()
    await until(lambda: kit.pool.fetchval("select exists (select from atlas.jobs where id = $1)", run_id))


async def test_the_loop_publishes_its_workflows(kit, loop):
    known = {workflow.key: workflow for workflow in await list_workflows(kit.pool)}

    assert known["wf.typed"].kind == "code"
    assert "item" in known["wf.typed"].input_schema["properties"]


async def test_the_loop_publishes_its_workflows_again_and_again(kit, monkeypatch):
    monkeypatch.setattr("atlas.workers.workflows.loop.PUBLISH_SECONDS", 0.1)
    stop = asyncio.Event()
    task = asyncio.create_task(run_engine_loop(kit.pool, stop, poll=0.05))
    await until(lambda: kit.pool.fetchval("select exists (select from atlas.workflows)"))
    await kit.pool.execute("update atlas.workflows set last_seen_at = now() - interval '2 days'")
    await until(
        lambda: kit.pool.fetchval("select bool_and(last_seen_at > now() - interval '1 minute') from atlas.workflows")
    )
    stop.set()
    await task


async def test_the_loop_closes_what_has_expired(kit):
    run = await kit.run("wf.asks")
    await kit.pass_time(timedelta(hours=5))
    await settle_intents(kit.pool)

    [asked] = await list_approvals(kit.pool, run_id=run.id)
    assert asked.status == "expired"


async def test_a_worker_without_the_code_leaves_the_run_to_one_that_has_it(kit, monkeypatch):
    calls.clear()
    await settle_intents(kit.pool)  # publishes the workflows of this process
    await kit.pool.execute("update atlas.workflows set last_seen_at = now() - interval '20 days'")
    run_id = await kit.ask("wf.plain")
    await kit.tick()
    there = _registry["wf.plain"]
    monkeypatch.delitem(_registry, "wf.plain")
    await kit.work()
    job = await get_job(kit.pool, run_id)
    assert (job.status, job.retry_count, calls["one"]) == ("queued", 0, 0)

    monkeypatch.setitem(_registry, "wf.plain", there)
    await kit.pass_time(timedelta(seconds=2))
    await kit.work()
    assert (await kit.get(run_id)).status == "succeeded"


async def test_a_tick_ends_though_its_last_job_is_a_run_that_went_to_wait(kit):
    run_id = await kit.ask("wf.asks")
    await kit.tick()
    async with asyncio.timeout(20):
        await tick(kit.pool, kit.url, limit=1)
    assert (await kit.get(run_id)).status == "waiting"
