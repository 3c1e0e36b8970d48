"""The soak: mixed load with random faults for as long as ATLAS_SOAK_MINUTES says. Only `make soak-faults` collects it."""

import asyncio
import os
import random
from collections import Counter

import psutil

import tests.workers.handlers  # noqa: F401  # registers the job types
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from tests.support import DANA
from tests.workers.test_faults import start_worker

MINUTES = float(os.environ.get("ATLAS_SOAK_MINUTES", "60"))
WORKERS = 3


async def test_hours_of_mixed_load_with_faults_lose_nothing(pool, owner, database_url):
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=DANA)
    await owner.execute("create table effects (job_id uuid, attempt int); grant all on effects to public")
    dice = random.Random(11)
    loop = asyncio.get_running_loop()
    until = loop.time() + MINUTES * 60
    running = [await start_worker(database_url, types="test.effect,test.fails") for _ in range(WORKERS)]
    made, kills, weights = 0, 0, []
    while loop.time() < until:
        jobs = [NewJob("test.effect", {"n": n}) for n in range(dice.randint(1, 400))]
        jobs += [NewJob("test.fails", {}, max_retries=1) for _ in range(dice.randint(0, 5))]
        async with pool.acquire() as conn:
            await enqueue_many(conn, jobs, actor=DANA)
        made += len(jobs)
        if dice.random() < 0.2:
            victim = dice.randrange(WORKERS)
            running[victim].kill()
            await running[victim].wait()
            running[victim] = await start_worker(database_url, types="test.effect,test.fails")
            kills += 1
        weights.append(max(psutil.Process(one.pid).memory_info().rss for one in running) / 2**20)
        await asyncio.sleep(1)
    async with asyncio.timeout(300):
        while await pool.fetchval("select exists (select from atlas.jobs where status in ('queued', 'running'))"):
            await asyncio.sleep(1)
    for one in running:
        one.terminate()
    await asyncio.gather(*(one.wait() for one in running))

    counts = Counter(
        {row[0]: row[1] for row in await pool.fetch("select status::text, count(*) from atlas.jobs group by 1")}
    )
    doubled = await pool.fetch("select job_id::text from effects group by 1 having count(*) > 1")
    expired = {
        row[0] for row in await pool.fetch("select entity_id from atlas.audit_log where action = 'LEASE_EXPIRED'")
    }
    print(f"soak: {made} jobs, {kills} kills, {dict(counts)}, {len(doubled)} done twice, {max(weights):.0f} MB at most")
    assert sum(counts.values()) == made
    assert {row[0] for row in doubled} <= expired
