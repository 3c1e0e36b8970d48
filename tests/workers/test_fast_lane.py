"""The fast lane: a new job of another tenant starts although every call of a busy worker is on its way."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from atlas.engine.jobs.claim import TurnResult, claim_of_tenant
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.workers.attempts.executor import Executor
from atlas.workers.claims.fast_lane import NO_TENANT
from tests.support import DANA
from tests.workers.handlers import STARTED


@pytest.fixture
async def light(pool):
    """Another tenant than the one with the backlog."""
    return await pool.fetchval("insert into atlas.tenants (slug, name) values ('light', 'Light') returning id")


def stop_both_calls(worker):
    """Let both calls of a worker stand still with what they have to record, once it has finished 500 jobs."""
    still, go_on = [], asyncio.Event()

    async def stand_still():
        if worker.finished >= 500:
            still.append(True)
            await go_on.wait()

    worker.before_finish(stand_still)
    return still, go_on


@pytest.fixture
def standing_still(given, serving):
    """A worker behind a backlog whose two connections stand still with what they have to record, until the block ends."""

    @asynccontextmanager
    async def begin():
        await given("test.noop", *({} for _ in range(2000)))
        STARTED.clear()
        async with serving("test.noop", "test.sleeps", poll=60, lease=60, batch=50) as worker:
            still, go_on = stop_both_calls(worker)
            await until(lambda: len(still) == 2)
            recorded = worker.finished
            yield worker
            assert worker.finished == recorded
            go_on.set()
            await until(lambda: worker.finished == 2000 + len(STARTED))

    return begin


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def enqueue_light(pool, tenant):
    async with pool.acquire() as conn:
        await enqueue(conn, NewJob("test.sleeps", {"seconds": 0}, tenant), actor=DANA)


@pytest.mark.long
async def test_a_new_job_of_another_tenant_does_not_wait_for_the_calls_in_flight(pool, light, standing_still):
    async with standing_still():
        await enqueue_light(pool, light)
        await until(lambda: len(STARTED) == 1)
    once = await pool.fetchval("select count(*) from atlas.jobs where status = 'succeeded' and attempt_count = 1")
    assert once == 2001


async def test_a_slow_call_does_not_keep_the_next_jobs_from_the_fast_lane(pool, light, standing_still, monkeypatch):
    async def slowly(*arguments, **options):
        await asyncio.sleep(0.2)
        return await claim_of_tenant(*arguments, **options)

    async with standing_still():
        monkeypatch.setattr("atlas.workers.claims.fast_lane.claim_of_tenant", slowly)
        for number in (1, 2):
            await enqueue_light(pool, light)
            await until(lambda number=number: len(STARTED) == number)
            await asyncio.sleep(0.1)


@pytest.mark.long
async def test_a_call_that_gets_no_response_keeps_others_waiting_once(pool, light, given, serving, monkeypatch):
    monkeypatch.setattr("atlas.workers.claims.fast_lane.GOES_FIRST_SECONDS", 2.0)
    calls, responds = 0, asyncio.Event()

    async def silent(conn, claimant, tenant_id, job_type, *, within):
        nonlocal calls
        calls += 1
        if tenant_id != NO_TENANT:
            await responds.wait()
        return TurnResult()

    monkeypatch.setattr("atlas.workers.claims.fast_lane.claim_of_tenant", silent)
    backlog = 2000
    await given("test.noop", *({} for _ in range(backlog)))
    async with serving("test.noop", "test.sleeps", poll=60, lease=60, batch=10) as worker:
        await until(lambda: calls == 1)
        while calls == 1:
            if backlog - worker.finished < 1500:
                # A busy machine is slow to hear of the light job.
                await given("test.noop", *({} for _ in range(1000)))
                backlog += 1000
            await enqueue_light(pool, light)
            await asyncio.sleep(0.005)
        left = backlog - worker.finished
        assert left > 300, "the backlog was served before the fast lane was used"
        await until(lambda: worker.finished >= backlog)
        responds.set()


async def test_a_notification_that_a_stranger_sends_is_no_hint(pool, light, standing_still):
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    async with standing_still():
        for payload in ("", "no-uuid some.type", "*", f"{light}", "\N{SNOWMAN} " * 50):
            await pool.execute("select pg_notify('atlas_jobs', $1)", payload)
        await enqueue_light(pool, light)
        await until(lambda: STARTED)
    assert errors == []


async def test_what_a_call_brings_of_a_tenant_without_jobs_here_starts_before_the_local_queue(
    pool, light, given, serving, monkeypatch
):
    """Also where the fast lane did not claim it."""
    monkeypatch.setattr("atlas.workers.claims.fast_lane.FastLane.offer", lambda lane, payload: False)
    fed = []
    feed = Executor.feed

    def note(executor, jobs, *, first=False):
        fed.extend((job.tenant_id, first) for job in jobs)
        feed(executor, jobs, first=first)

    monkeypatch.setattr(Executor, "feed", note)
    await given("test.noop", *({} for _ in range(2000)))
    async with serving("test.noop", "test.sleeps", poll=60, lease=60, batch=50) as worker:
        still, go_on = stop_both_calls(worker)
        await until(lambda: len(still) == 2)
        for _ in range(3):
            await enqueue_light(pool, light)
        go_on.set()
        await until(lambda: worker.finished == 2003)

    assert [first for tenant_id, first in fed if tenant_id == light].count(True) >= 1
    assert not any(first for tenant_id, first in fed if tenant_id != light)
