"""Leases and the reaper: a silent worker's jobs come back, once, and a dead worker stays dead."""

import asyncio

import orjson
import pytest
import structlog

from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish, finish_and_claim, keep_log
from atlas.engine.jobs.lease import heartbeat, reap, record_undone, retire_worker
from atlas.engine.jobs.lists.find import list_attempts
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.verdicts import decide
from tests.engine.jobs.given import (
    DANA,
    actions,
    attempts,
    began_long_ago,
    given_claimed,
    given_job,
    given_worker,
    load,
    lose_lease,
    make_due,
    success,
)


async def test_a_heartbeat_renews_a_living_lease_and_never_a_lapsed_one(conn):
    worker = await given_worker(conn)
    assert await heartbeat(conn, worker.id, lease=60, running=3)
    await lose_lease(conn, worker)
    assert not await heartbeat(conn, worker.id, lease=60, running=3)
    assert not await heartbeat(conn, "nobody", lease=60, running=0)


@pytest.mark.usefixtures("default_logs")
async def test_the_log_names_all_of_a_job_whose_lease_expired(conn, monkeypatch):
    # A logger that was used before a test keeps where it writes.
    monkeypatch.setattr("atlas.engine.jobs.sweep.log", structlog.get_logger("sweep"))
    worker, job = await given_claimed(conn)
    await lose_lease(conn, worker)
    with structlog.testing.capture_logs() as lines:
        await sweep(conn)

    [line] = [line for line in lines if line["event"] == "lease expired"]
    assert line.items() >= job.log_facts(worker.id).items()
    assert (line["verdict"], line["definition_key"], line["attempt_no"]) == ("requeued", job.job_type, 1)


async def test_an_expired_lease_requeues_the_job_uncounted_and_later(conn):
    worker, job = await given_claimed(conn)
    await lose_lease(conn, worker)
    assert [row[:3] for row in await reap(conn)] == [(job.id, worker.id, "requeued")]

    row = await load(conn, job.id)
    assert (row["status"], row["retry_count"], row["lost_count"], row["claimed_by"]) == ("queued", 0, 1, None)
    waits = await conn.fetchval(
        "select extract(epoch from next_retry_at - updated_at)::float8 from atlas.jobs where id = $1", job.id
    )
    assert 0.9 <= waits <= 3.1
    assert await actions(conn, job.id) == ["JOB_CREATED", "LEASE_EXPIRED"]
    assert await attempts(conn, job.id) == [(1, "lost", None)]


async def test_a_claim_that_the_database_forgot_is_recorded_as_lost_and_the_next_attempt_has_its_own_number(conn):
    worker, job = await given_claimed(conn)
    _, other = await given_claimed(conn)
    _, ended = await given_claimed(conn)
    await conn.execute(
        "update atlas.jobs set status = 'queued', attempt_count = 0, claimed_by = null, started_at = null where id = $1",
        job.id,
    )
    await conn.execute("update atlas.jobs set status = 'succeeded', finished_at = now() where id = $1", ended.id)
    held = [(one.id, one.attempt) for one in (job, other, ended)]
    assert await record_undone(conn, worker.id, held) == {job.id, other.id, ended.id}

    row = await load(conn, job.id)
    assert (row["status"], row["attempt_count"], row["lost_count"]) == ("queued", 1, 0)
    assert await attempts(conn, job.id) == [(1, "lost", None)]
    assert await actions(conn, job.id) == ["JOB_CREATED", "LEASE_EXPIRED"]
    # Another took it under the same number: it is recorded, and left to the other.
    assert (await load(conn, other.id))["status"] == "running"
    assert await actions(conn, other.id) == ["JOB_CREATED", "LEASE_EXPIRED"]
    # The other has ended it: it is recorded all the same.
    assert await actions(conn, ended.id) == ["JOB_CREATED", "LEASE_EXPIRED"]


async def test_a_forgotten_claim_is_recorded_also_when_another_attempt_has_failed_since(conn):
    other, job = await given_claimed(conn)
    await finish(conn, other, [decide(job, other.id, ValueError("no paper"), ATLAS)])
    assert await record_undone(conn, other.id, [(job.id, job.attempt)]) == set()
    assert await record_undone(conn, "host:1:lost", [(job.id, job.attempt)]) == {job.id}
    await make_due(conn, job.id)
    [again] = await claim(conn, other, limit=1)
    await finish(conn, other, [success(other, again)])
    assert await record_undone(conn, other.id, [(job.id, job.attempt)]) == set()
    assert await record_undone(conn, "host:1:lost", [(job.id, job.attempt)]) == {job.id}
    assert await cross_check(conn) == []


async def test_what_a_worker_holds_ended_or_lost_was_not_undone(conn):
    worker, job = await given_claimed(conn)
    assert await record_undone(conn, worker.id, [(job.id, job.attempt)]) == set()
    await lose_lease(conn, worker)
    await reap(conn)
    assert await record_undone(conn, worker.id, [(job.id, job.attempt)]) == set()


async def test_a_job_that_began_longer_ago_than_an_int_holds_milliseconds_comes_back_as_any_other(conn):
    worker, job = await given_claimed(conn)
    await began_long_ago(conn, job)
    await lose_lease(conn, worker)
    assert [row[:3] for row in await reap(conn)] == [(job.id, worker.id, "requeued")]
    [lost] = await list_attempts(conn, job.id)
    assert (lost["status"], lost["duration_ms"]) == ("lost", 2**31 - 1)


async def test_a_job_that_ran_longer_than_an_int_holds_milliseconds_ends_and_is_shown_as_any_other(conn):
    worker, failing = await given_claimed(conn)
    await began_long_ago(conn, failing)
    [running] = await list_attempts(conn, failing.id)
    assert running["duration_ms"] is None
    await finish(conn, worker, [decide(failing, worker.id, ValueError("no paper"), ATLAS)])
    other, working = await given_claimed(conn, "other")
    await began_long_ago(conn, working)
    await finish(conn, other, [success(other, working)])
    shown = [(await list_attempts(conn, job.id))[0] for job in (failing, working)]
    assert [(one["status"], one["duration_ms"]) for one in shown] == [
        ("failed", 2**31 - 1),
        ("succeeded", 2**31 - 1),
    ]


async def test_a_living_workers_jobs_are_left_alone(conn):
    await given_claimed(conn)
    assert await reap(conn) == []


async def test_the_third_loss_is_poison_whatever_retries_are_left(conn):
    job_id = await given_job(conn, max_retries=50)
    for _ in range(3):
        worker = await given_worker(conn, "report.build")
        await claim(conn, worker, limit=1)
        await lose_lease(conn, worker)
        await reap(conn)
        await conn.execute("update atlas.jobs set next_retry_at = null where id = $1 and status = 'queued'", job_id)

    row = await load(conn, job_id)
    assert (row["status"], row["lost_count"], row["retry_count"]) == ("failed", 3, 0)
    assert row["dead_lettered_at"] is not None
    assert orjson.loads(row["error"])["type"] == "Poison"
    assert await actions(conn, job_id) == ["JOB_CREATED", "LEASE_EXPIRED", "LEASE_EXPIRED", "JOB_POISONED"]
    assert [attempt[1] for attempt in await attempts(conn, job_id)] == ["lost"] * 3


async def test_a_lost_job_is_claimed_into_a_slot_and_never_ahead(conn):
    worker, job = await given_claimed(conn)
    await lose_lease(conn, worker)
    await reap(conn)
    await make_due(conn, job.id)
    other = await given_worker(conn, "report.build")

    assert (await finish_and_claim(conn, other, slots=0, prefetch=10)).claimed == []
    [again] = (await finish_and_claim(conn, other, slots=1)).claimed
    assert (again.id, again.lost_count) == (job.id, 1)


async def test_a_lost_job_that_was_asked_to_stop_is_canceled(conn):
    worker, job = await given_claimed(conn)
    await cancel(conn, job.id, actor=DANA)
    await lose_lease(conn, worker)
    assert [row[:3] for row in await reap(conn)] == [(job.id, worker.id, "canceled")]
    assert (await load(conn, job.id))["status"] == "canceled"


async def test_jobs_of_a_worker_that_signed_off_or_vanished_come_back(conn):
    worker, job = await given_claimed(conn)
    await retire_worker(conn, worker.id)
    assert [row[:3] for row in await reap(conn)] == [(job.id, worker.id, "requeued")]

    vanished, second = await given_claimed(conn, "other")
    await conn.execute("delete from atlas.job_workers where worker_id = $1", vanished.id)
    assert [row[0] for row in await reap(conn)] == [second.id]


async def test_reapers_in_parallel_take_each_job_back_once(pool):
    async with pool.acquire() as conn:
        await enqueue_many(conn, [NewJob("many", {"n": n}) for n in range(500)], actor=DANA)
        worker = await given_worker(conn, "many")
        await claim(conn, worker, limit=500)
        await lose_lease(conn, worker)

    async def sweep():
        async with pool.acquire() as conn:
            return await reap(conn)

    rows = [row for _ in range(3) for part in await asyncio.gather(*(sweep() for _ in range(6))) for row in part]
    assert len(rows) == len({row[0] for row in rows}) == 500


async def test_thousands_that_cannot_be_reaped_do_not_hide_one_that_can(pool):
    """Another transaction holds the rows of 2,000 lost jobs; the one beside them comes back in the first sweep."""
    async with pool.acquire() as conn, pool.acquire() as other:
        await enqueue_many(conn, [NewJob("held", {"n": n}) for n in range(2000)], actor=DANA)
        stuck = await given_worker(conn, "held")
        held = await claim(conn, stuck, limit=2000)
        worker, job = await given_claimed(conn)
        await lose_lease(conn, stuck)
        await lose_lease(conn, worker)
        async with other.transaction():
            await other.execute(
                "select from atlas.jobs where id = any($1::uuid[]) for update", [one.id for one in held]
            )
            assert [row[0] for row in await reap(conn)] == [job.id]


async def test_a_lapsed_worker_never_comes_back_to_life_under_its_id(conn):
    worker, job = await given_claimed(conn)
    await lose_lease(conn, worker)
    await reap(conn)
    assert not await heartbeat(conn, worker.id, lease=60, running=1)
    assert (await finish(conn, worker, [success(worker, job)])).lost == [(job.id, 1)]


async def test_the_log_of_an_attempt_that_is_lost_is_not_in_the_way_of_its_loss(conn):
    worker, job = await given_claimed(conn)
    await keep_log(conn, job, worker.id, "about to lose the lease", seconds=1)
    await lose_lease(conn, worker)
    await reap(conn)
    assert await conn.fetchval("select status::text from atlas.job_attempts where job_id = $1", job.id) == "lost"
