"""The fast lane: a new job of another tenant starts although every call of a busy worker is on its way."""

import asyncio

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_job import NewJob
from tests.support import DANA
from tests.workers.handlers import STARTED


async def test_a_new_job_of_another_tenant_does_not_wait_for_the_calls_in_flight(pool, given, serving):
    """Both connections of the claim loop stand still with what they have to record."""
    light = await pool.fetchval("insert into atlas.tenants (slug, name) values ('light', 'Light') returning id")
    await given("test.noop", *({} for _ in range(2000)))
    still, go_on = [], asyncio.Event()
    STARTED.clear()
    async with serving("test.noop", "test.sleeps", poll=60, lease=60, batch=50) as worker:

        async def stand_still():
            if worker.finished >= 500:
                still.append(True)
                await go_on.wait()

        worker.before_finish(stand_still)
        async with asyncio.timeout(20):
            while len(still) < 2:
                await asyncio.sleep(0.01)
        recorded = worker.finished
        async with pool.acquire() as conn:
            await enqueue(conn, NewJob("test.sleeps", {"seconds": 0}, light), actor=DANA)
        async with asyncio.timeout(20):
            while not STARTED:
                await asyncio.sleep(0.01)
        assert worker.finished == recorded
        go_on.set()
        async with asyncio.timeout(20):
            while worker.finished < 2001:
                await asyncio.sleep(0.05)
    once = await pool.fetchval("select count(*) from atlas.jobs where status = 'succeeded' and attempt_count = 1")
    assert once == 2001
