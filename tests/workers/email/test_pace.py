"""The pace of a sender: never more than n messages in any minute, across workers, and waiting uses up no retry."""

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.settings import Settings
from atlas.workers.worker import Worker, WorkerOptions
from tests.support import DANA, PROOF, some, until
from tests.workers.email.given import MAIL
from tests.workers.email.server import Play

MANY = 2000 if PROOF else 200


async def slots(pool, bucket: str, per_minute: int, count: int) -> list[datetime]:
    """The send slots that so many mails get one after the other."""
    return [
        await pool.fetchval("select atlas.mail_slot($1::text[], $2::int[])", [bucket], [per_minute])
        for _ in range(count)
    ]


@pytest.mark.parametrize("per_minute", some([1, 2, 3, 10, 30, 120, 1000], every=3))
async def test_no_minute_ever_sees_more_than_the_limit(pool, per_minute):
    times = await slots(pool, "a", per_minute, MANY)

    assert times == sorted(times)
    for nth, one in enumerate(times[per_minute:]):
        assert one - times[nth] >= timedelta(seconds=59.99)
    # And the pace is used: the last mail is not later than its share of the minutes.
    assert times[-1] - times[0] < timedelta(minutes=1.15 * MANY / per_minute + 1)


async def test_a_few_may_go_at_once(pool):
    now = datetime.now(UTC)
    times = await slots(pool, "a", 30, 4)

    assert all(abs((one - now).total_seconds()) < 2 for one in times[:3])
    assert times[3] - times[0] > timedelta(seconds=2)


async def test_an_account_that_counts_by_the_second_never_sees_two_at_once(pool):
    times = [await pool.fetchval("select atlas.mail_slot(array['a'], array[100], array[1])") for _ in range(MANY)]

    assert all(later - earlier > timedelta(seconds=0.59) for earlier, later in pairwise(times))
    assert times[-1] - times[0] < timedelta(seconds=0.61 * MANY)


async def test_many_workers_share_one_pace(pool):
    each = [slots(pool, "a", 60, MANY // 8) for _ in range(8)]
    times = sorted(one for found in await asyncio.gather(*each) for one in found)

    for nth, one in enumerate(times[60:]):
        assert one - times[nth] >= timedelta(seconds=59.99)


async def test_two_buckets_are_both_respected_and_never_deadlock(pool):
    buckets = {"a": 30, "b": 7, "c": 90}

    async def take(_: int) -> tuple[datetime, list[str]]:
        chosen = random.sample(sorted(buckets), 2)
        return await pool.fetchval(
            "select atlas.mail_slot($1::text[], $2::int[])", chosen, [buckets[name] for name in chosen]
        ), chosen

    found = await asyncio.gather(*(take(number) for number in range(MANY)))

    for name, per_minute in buckets.items():
        times = sorted(slot for slot, chosen in found if name in chosen)
        for nth, one in enumerate(times[per_minute:]):
            assert one - times[nth] >= timedelta(seconds=59.99)


async def test_two_mails_that_are_the_first_of_their_buckets_do_not_wait_for_each_other(pool):
    async with pool.acquire() as first, pool.acquire() as second:
        async with first.transaction():
            await first.fetchval("select atlas.mail_slot('{a}', '{30}')")
            other = asyncio.create_task(second.fetchval("select atlas.mail_slot('{b,a}', '{7,30}')"))
            await until(lambda: is_waiting(pool, second))
            await first.fetchval("select atlas.mail_slot('{b}', '{7}')")
        assert await other is not None


async def is_waiting(pool, conn) -> bool:
    """Whether the statement of this connection waits for a lock."""
    return await pool.fetchval("select cardinality(pg_blocking_pids($1)) > 0", conn.get_server_pid())


@pytest.mark.parametrize("provider", ["microsoft", "resend"])
async def test_a_mail_waits_for_its_send_slot_without_using_up_a_retry(post, server, provider):
    post.use(provider, ms_messages_per_minute=2, resend_messages_per_minute=2)
    jobs = [await post.enqueue(max_retries=0) for _ in range(4)]

    await post.drain()

    rows = [await post.job(job_id) for job_id in jobs]
    assert sorted(row.status for row in rows) == ["queued", "queued", "queued", "succeeded"]
    waits = sorted((row.next_retry_at - datetime.now(UTC)).total_seconds() for row in rows if row.status == "queued")
    assert [round(wait / 30) for wait in waits] == [1, 2, 3]
    assert {row.retry_count for row in rows} == {0}
    [waiting, *_] = [row.id for row in rows if row.status == "queued"]
    assert await post.attempts(waiting) == [("canceled", "snoozed")]

    # Each has a send slot of its own, and it comes.
    for row in rows:
        await time_passes(post, row.id)
        assert (await post.run(row.id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1 for job_id in jobs}


async def test_a_send_slot_that_was_missed_by_far_is_exchanged_for_a_new_one(post, server):
    post.use(ms_messages_per_minute=1)
    jobs = [await post.enqueue() for _ in range(3)]
    await post.drain()
    waiting = [job_id for job_id in jobs if (await post.job(job_id)).status == "queued"]
    assert len(waiting) == 2

    # All was down for an hour: both times are over, and two at once would be one too many.
    await post.pool.execute("update atlas.mail_slots set slot_at = clock_timestamp() - interval '1 hour'")
    await post.pool.execute("update atlas.mail_pace set next_at = clock_timestamp() - interval '1 hour'")
    for job_id in waiting:
        await post.make_due(job_id)
    await post.drain()

    assert sorted([(await post.job(job_id)).status for job_id in waiting]) == ["queued", "succeeded"]


@pytest.mark.long
async def test_the_send_slots_of_canceled_mails_go_to_those_that_come_after(post, server):
    post.use(ms_messages_per_minute=30)
    jobs = [await post.enqueue() for _ in range(60)]
    await post.drain()
    waiting = [job_id for job_id in jobs if (await post.job(job_id)).status == "queued"]
    assert len(waiting) > 50
    before = await times(post)
    async with post.pool.acquire() as conn:
        await change_many(conn, "cancel", waiting, actor=DANA, tenant_id=None)

    later = [await post.enqueue() for _ in range(10)]
    await post.drain()

    rows = [await post.job(job_id) for job_id in later]
    assert max((row.next_retry_at - datetime.now(UTC)).total_seconds() for row in rows if row.next_retry_at) < 40
    # Moments changed hands, and none was made.
    assert set(await times(post)) <= set(before)

    # One that is retried has lost its send slot, and reserves another.
    [(stripped,)] = await post.pool.fetch(
        "select id from atlas.jobs j where j.status = 'canceled' and not exists ("
        " select from atlas.mail_slots m where m.job_id = j.id) order by j.id limit 1"
    )
    async with post.pool.acquire() as conn:
        await retry_now(conn, stripped, actor=DANA)
    await post.drain()
    assert len(set(await times(post))) == len(await times(post))


@pytest.mark.long
async def test_many_workers_that_take_over_send_slots_take_each_once(post, server):
    post.use(ms_messages_per_minute=30)
    jobs = [await post.enqueue() for _ in range(60)]
    await post.drain()
    async with post.pool.acquire() as conn:
        await change_many(
            conn,
            "cancel",
            [job_id for job_id in jobs if (await post.job(job_id)).status == "queued"],
            actor=DANA,
            tenant_id=None,
        )
    freed = await times(post)

    bucket = await post.pool.fetchval("select bucket from atlas.mail_pace")
    taken = await asyncio.gather(
        *(post.pool.fetchval("select atlas.mail_freed_slot($1::text[])", [bucket]) for _ in range(40))
    )

    got = [one for one in taken if one is not None]
    assert got
    assert len(set(got)) == len(got)
    assert sorted([*got, *await times(post)]) == freed


async def test_the_send_slots_of_live_mails_and_of_other_senders_are_not_taken(post, server):
    post.use(ms_messages_per_minute=1, agent_emails={"A": "a@contoso.example"})
    theirs = [await post.enqueue({**MAIL, "fromAgent": "A"}) for _ in range(4)]
    await post.drain()
    async with post.pool.acquire() as conn:
        await change_many(
            conn,
            "cancel",
            [job_id for job_id in theirs if (await post.job(job_id)).status == "queued"],
            actor=DANA,
            tenant_id=None,
        )
    before = await times(post)
    ours = [await post.enqueue() for _ in range(4)]
    await post.drain()

    assert len(await times(post)) == len(before) + 3
    assert set(before) <= set(await times(post))
    assert sorted([(await post.job(job_id)).status for job_id in ours]) == ["queued"] * 3 + ["succeeded"]


async def times(post) -> list[datetime]:
    """The reserved send slots, in their order."""
    rows = await post.pool.fetch("select slot_at from atlas.mail_slots order by slot_at")
    return [row["slot_at"] for row in rows]


async def test_senders_do_not_wait_for_each_other(post, server):
    post.use(ms_messages_per_minute=1, agent_emails={"A": "a@contoso.example", "B": "b@contoso.example"})
    jobs = [await post.enqueue({**MAIL, "fromAgent": agent}) for agent in ("A", "B", "nobody")]

    await post.drain()

    assert [(await post.job(job_id)).status for job_id in jobs] == ["succeeded"] * 3


@pytest.mark.slow
async def test_an_account_that_allows_two_requests_a_second_refuses_none(post, server, monkeypatch):
    default = Settings.resend_messages_per_minute
    post.use("resend", resend_messages_per_minute=default, agent_emails={"A": "a@atlas.example"})
    taken, resend = [], server._resend

    def two_a_second(request, play):
        now = time.monotonic()
        if sum(one > now - 1 for one in taken) >= 2:
            play.status, play.body = 429, {"name": "rate_limit_exceeded", "message": "Two a second."}
        taken.append(now)
        return resend(request, play)

    monkeypatch.setattr(server, "_resend", two_a_second)
    jobs = [await post.enqueue({**MAIL, "fromAgent": agent}, max_retries=0) for agent in ("A", "none") * 6]
    worker = Worker(post.pool, post.url, WorkerOptions(job_types=["EMAIL_SEND"], lease=5))
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        while len(taken) < len(jobs):
            await asyncio.sleep(0.1)
    worker.stop()
    await running

    assert [(await post.job(job_id)).status for job_id in jobs] == ["succeeded"] * len(jobs)


async def test_a_tenants_own_limit_counts_beside_its_senders(post, server):
    await post.pool.execute(
        """update atlas.tenants set limits = '{"email": {"per_minute": 1}}' where id = $1""", SYSTEM_TENANT
    )
    post.use("microsoft", agent_emails={"A": "a@contoso.example"})
    first, second = await post.enqueue(), await post.enqueue({**MAIL, "fromAgent": "A"})

    await post.drain()

    assert sorted([(await post.job(first)).status, (await post.job(second)).status]) == ["queued", "succeeded"]


async def test_a_mail_that_another_provider_stands_in_for_counts_once_for_its_tenant(post, server):
    await post.pool.execute(
        """update atlas.tenants set limits = '{"email": {"per_minute": 1}}' where id = $1""", SYSTEM_TENANT
    )
    post.use("microsoft", "resend")
    server.play("draft", *(Play(status=403, body={}) for _ in range(9)))

    job = await post.run(await post.enqueue())

    assert (job.status, job.output.get("provider"), job.attempt_count) == ("succeeded", "resend", 1)


@pytest.mark.long
async def test_a_mail_that_waited_for_the_provider_that_stands_in_goes_to_it_at_once(post, server):
    post.use("microsoft", "resend", ms_messages_per_minute=1, resend_messages_per_minute=1)
    server.play("draft", *(Play(status=403, body={}) for _ in range(9)))
    await post.run(await post.enqueue())
    job_id = await post.enqueue()
    for provider in ("microsoft", "resend"):
        assert (await post.run(job_id)).status == "queued"
        [waiting] = await post.pool.fetch("select provider from atlas.mail_slots")
        assert waiting["provider"] == provider
        await time_passes(post, job_id)

    assert (await post.run(job_id)).output["provider"] == "resend"
    assert len(server.asked("draft")) == 2


async def time_passes(post, job_id) -> None:
    await post.pool.execute("update atlas.mail_slots set slot_at = clock_timestamp() where job_id = $1", job_id)
    await post.make_due(job_id)
