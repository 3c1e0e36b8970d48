"""A large group under two workers: failures, retries, and one job that follows with the right counts."""

import asyncio

import orjson
import pytest

from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.groups import settle_groups
from atlas.engine.jobs.lists.find_groups import find_group
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.support import DANA, PROOF

SIZE = 20_000 if PROOF else 2000


@pytest.mark.long
async def test_a_group_under_two_workers_is_followed_once_with_the_right_counts(pool, drain):
    async with pool.acquire() as conn:
        jobs = [NewJob("test.fails" if n % 20 == 0 else "test.noop", {"n": n}) for n in range(SIZE)]
        group_id = await enqueue_group(conn, jobs, then=NewJob("test.returns", {}, allow_unknown=True), actor=DANA)

    async def settle() -> None:
        async with pool.acquire() as conn:
            while await settle_groups(conn) == 0 and (await find_group(conn, group_id)).ended_at is None:
                await asyncio.sleep(0.05)

    async with asyncio.timeout(120 if PROOF else 60):
        types = ("test.noop", "test.fails")
        await asyncio.gather(drain(*types), drain(*types), settle(), settle())
    rows = await pool.fetch("select input from atlas.jobs where job_type = 'test.returns'")
    failed = SIZE // 20
    counts = {"succeeded": SIZE - failed, "failed": failed, "canceled": 0, "deleted": 0}
    assert [orjson.loads(row["input"])["group"]["counts"] for row in rows] == [counts]
    attempts = await pool.fetchval("select sum(attempt_count) from atlas.jobs where group_id = $1", group_id)
    assert attempts == SIZE - failed + 3 * failed
