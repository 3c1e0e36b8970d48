"""Deadlines in a worker: what waits too long there, and attempts that finish_by ends."""

from datetime import UTC, datetime, timedelta

import orjson

from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.support import DANA


async def row(pool, job_id):
    return await pool.fetchrow("select * from atlas.jobs where id = $1", job_id)


async def test_finish_by_ends_an_attempt_and_its_retries(pool, drain):
    async with pool.acquire() as conn:
        soon = datetime.now(UTC) + timedelta(seconds=0.8)
        job = NewJob("test.sleeps", {"seconds": 30}, finish_by=soon, max_retries=5)
        made = await enqueue(conn, job, actor=DANA)
    await drain()
    found = await row(pool, made.id)
    error = orjson.loads(found["error"])
    assert found["status"] in ("failed", "canceled")
    if found["status"] == "failed":
        assert error["type"] == "JobTimeout"
        assert "finish_by" in error["message"]
        assert "not retried" in error["message"]
        assert found["finished_at"] >= soon - timedelta(seconds=0.5)


async def test_a_prefetched_job_does_not_begin_after_its_time(pool, drain):
    """One slot: the second is claimed ahead with the first, and its time is over when the slot is free."""
    async with pool.acquire() as conn:
        await enqueue(conn, NewJob("test.sleeps", {"seconds": 0.6}, priority=1), actor=DANA)
        late = [NewJob("test.sleeps", {"seconds": 0}, expires_in=timedelta(seconds=0.4)) for _ in range(3)]
        await enqueue_many(conn, late, actor=DANA)
    await drain(concurrency=1)
    for job in late:
        found = await row(pool, job.id)
        assert (found["status"], orjson.loads(found["error"])["reason"]) == ("canceled", "expired")
