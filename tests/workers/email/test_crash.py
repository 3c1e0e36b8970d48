"""kill -9 in the middle of sending: the next attempt finds out what became of it, and no mail goes out twice."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict

import orjson
import pytest

from tests.support import PROOF, ROOT, some
from tests.workers.email.server import Play


@asynccontextmanager
async def worker_process(post) -> AsyncIterator[asyncio.subprocess.Process]:
    settings = {**asdict(post.settings), "database_url": None}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.workers.email.worker_process",
        post.url,
        orjson.dumps(settings, default=str).decode(),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def reaped(post) -> None:
    """The dead worker's lease runs out, and its jobs are due again."""
    await post.pool.execute("update atlas.job_workers set lease_expires_at = clock_timestamp() where dead_at is null")
    await post.pool.fetch("select * from atlas.reap_leases(1000)")
    await post.pool.execute("update atlas.jobs set next_retry_at = clock_timestamp() where next_retry_at is not null")


@pytest.mark.parametrize(
    ("provider", "endpoint", "delivered"),
    some(
        [
            ("microsoft", "token", None),
            ("microsoft", "draft", None),
            ("microsoft", "send", False),
            ("microsoft", "send", True),
            ("resend", "resend", False),
            ("resend", "resend", True),
        ],
        every=3,
    ),
)
async def test_a_worker_killed_in_the_middle_of_sending_sends_nothing_twice(
    post, server, provider, endpoint, delivered
):
    post.use(provider)
    server.play(endpoint, Play(hold=asyncio.Event(), deliver=delivered))
    job_id = await post.enqueue()

    async with worker_process(post) as process:
        async with asyncio.timeout(60):
            while not server.asked(endpoint):
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        await process.wait()
    await reaped(post)
    job = await post.finish(job_id)

    assert job.status == "succeeded", job.error
    assert (job.lost_count, job.retry_count) == (1, 0)
    assert server.deliveries == {str(job_id): 1}
    if endpoint == "send":
        assert len(server.asked("lookup")) == 1
        assert len(server.asked("send")) == (1 if delivered else 2)


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_killed_again_and_again_every_mail_goes_out_once(post, server):
    """Workers that hold several mails, killed at random times, by either provider."""
    seed = random.Random(7)
    mails, kills = (200, 20) if PROOF else (30, 4)
    jobs = []
    for provider in ("microsoft", "resend"):
        post.use(provider)
        server.play("send" if provider == "microsoft" else provider, *(Play(hold=0.02) for _ in range(10 * mails)))
        jobs += [await post.enqueue() for _ in range(mails)]
        for _ in range(kills):
            before = len(server.requests)
            async with worker_process(post) as process:
                async with asyncio.timeout(60):
                    while len(server.requests) < before + 3 and await unfinished(post):
                        await asyncio.sleep(0.005)
                await asyncio.sleep(seed.uniform(0, 0.15))
                process.send_signal(signal.SIGKILL)
                await process.wait()
            # A job that three workers died with is set aside; these deaths are not its fault.
            await post.pool.execute("update atlas.jobs set lost_count = 0 where status = 'running'")
            await reaped(post)
        async with asyncio.timeout(180):
            while await unfinished(post):
                await post.drain()
                await post.pool.execute(
                    "update atlas.jobs set next_retry_at = clock_timestamp() where next_retry_at is not null"
                )

    assert server.deliveries == {str(job_id): 1 for job_id in jobs}
    statuses = await post.pool.fetch("select status::text, count(*) from atlas.jobs group by 1")
    assert {row["status"]: row["count"] for row in statuses} == {"succeeded": 2 * mails}
    assert await post.pool.fetchval("select count(*) from atlas.audit_log where action = 'EMAIL_SENT'") == 2 * mails
    lost = await post.pool.fetchval("select count(*) from atlas.job_attempts where status = 'lost'")
    print(f"mails {2 * mails}, kills {2 * kills}, attempts lost {lost}, delivered twice 0, not delivered 0")


async def unfinished(post) -> int:
    return await post.pool.fetchval("select count(*) from atlas.jobs where status in ('queued', 'running')")
