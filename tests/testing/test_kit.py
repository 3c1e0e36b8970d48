"""The test kit, used as users' own tests use it."""

from datetime import timedelta

import pytest

import tests.workers.handlers  # noqa: F401  # registers the job types
from atlas.testing import AtlasKit
from atlas.workers.tick import tick


@pytest.fixture
async def kit(database_url):
    async with AtlasKit.open(database_url) as opened:
        yield opened


async def test_due_jobs_run_and_are_counted(kit):
    job_id = await kit.enqueue("test.double", {"n": 4})
    await kit.enqueue("test.raises", {"what": "permanent"})
    await kit.enqueue("test.noop", delay=timedelta(hours=1))

    counts = await kit.run_due_jobs()
    assert (counts.ran, counts.succeeded, counts.failed) == (2, 1, 1)
    assert (await kit.job(job_id)).output == {"n": 8}


async def test_time_passes_on_demand(kit):
    job_id = await kit.enqueue("test.raises", {"what": "later"})
    await kit.run_due_jobs()
    assert (await kit.run_due_jobs()).ran == 0
    await kit.let_time_pass(timedelta(minutes=6))
    assert (await kit.run_due_jobs()).ran == 1
    assert len(await kit.attempts(job_id)) == 2


async def test_a_worker_that_dies_after_its_claim_loses_the_job_once(kit):
    job_id = await kit.enqueue("test.double", {"n": 1})
    with kit.die_after_claim():
        assert (await kit.run_due_jobs()).ran == 1
    await kit.let_time_pass(timedelta(seconds=0))
    assert (await kit.job(job_id)).lost_count == 1
    await kit.let_time_pass(timedelta(seconds=5))
    assert (await kit.run_due_jobs()).succeeded == 1
    assert [one["status"] for one in await kit.attempts(job_id)] == ["lost", "succeeded"]


async def test_a_worker_that_died_a_month_ago_loses_the_job_once(kit):
    job_id = await kit.enqueue("test.double", {"n": 1})
    with kit.die_after_claim():
        await kit.run_due_jobs()
    await kit.let_time_pass(timedelta(days=30))
    await kit.let_time_pass(timedelta(seconds=5))
    assert (await kit.run_due_jobs()).succeeded == 1
    assert [one["status"] for one in await kit.attempts(job_id)] == ["lost", "succeeded"]


async def test_a_lost_lease_refuses_the_outcome(kit):
    job_id = await kit.enqueue("test.double", {"n": 1})
    with kit.lose_lease():
        assert (await kit.run_due_jobs(limit=1)).succeeded == 0
    assert (await kit.job(job_id)).status == "running"
    await kit.let_time_pass(timedelta(seconds=0))
    assert (await kit.job(job_id)).lost_count == 1


async def test_without_notifications_everything_still_runs(kit):
    await kit.enqueue("test.noop")
    with kit.drop_notifications():
        assert (await kit.run_due_jobs()).succeeded == 1


async def test_a_tick_runs_at_most_what_it_may(kit):
    for _ in range(7):
        await kit.enqueue("test.noop")
    assert (await tick(kit.pool, kit.url, limit=5)).succeeded == 5
    assert (await tick(kit.pool, kit.url, limit=5)).succeeded == 2
    assert (await tick(kit.pool, kit.url, limit=5)).ran == 0
