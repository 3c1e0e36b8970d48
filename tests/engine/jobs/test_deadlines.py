"""Deadlines: start_by, expires_in and finish_by."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import asyncpg
import orjson
import pytest

from atlas.engine.hosts.leased_jobs import claim_for_host, claim_for_worker
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.backoff import ATLAS, RetryPolicy
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lease import expire_queued, reap
from atlas.engine.jobs.new_jobs.enqueue_call import enqueue as call
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import JobExpired, Snooze, decide, release
from atlas.errors import InvalidInput
from tests.engine.jobs.given import (
    actions,
    given_claimed,
    given_host,
    given_job,
    given_worker,
    load,
    lose_lease,
    make_due,
)
from tests.support import DANA

HOUR = timedelta(hours=1)


async def let_expire(conn, *ids):
    """Time passes: what was to start by some time is late."""
    await conn.execute(
        "update atlas.jobs set start_by = clock_timestamp() - interval '1 second' where id = any ($1)", list(ids)
    )


def in_an_hour() -> datetime:
    return datetime.now(UTC) + HOUR


async def test_a_job_that_was_not_started_in_time_is_canceled_as_expired(conn):
    job_id = await given_job(conn, expires_in=HOUR, dedupe_key="k")
    assert await expire_queued(conn) == 0
    await let_expire(conn, job_id)
    assert await expire_queued(conn) == 1
    row = await load(conn, job_id)
    error = orjson.loads(row["error"])
    assert (row["status"], error["reason"], error["type"]) == ("canceled", "expired", "JobExpired")
    assert "was not started by" in error["message"]
    assert await actions(conn, job_id) == ["JOB_CREATED", "JOB_CANCELED"]
    meta = await conn.fetchval("select meta from atlas.audit_log where action = 'JOB_CANCELED'")
    assert orjson.loads(meta)["reason"] == "expired"
    # The key is free again.
    assert await given_job(conn, expires_in=HOUR, dedupe_key="k") != job_id
    why = await explain(conn, job_id)
    assert why.reason == "expired"


async def test_expiry_goes_by_the_clock_of_the_database_and_its_boundary_belongs_to_it(conn):
    """At any time a queued job can either start or expire, never both: the conditions are opposites."""
    worker = await given_worker(conn, "report.build")
    soon = await given_job(conn, start_by=datetime.now(UTC) - timedelta(microseconds=1))
    assert [job.id for job in await claim(conn, worker, limit=5)] == []
    assert (await load(conn, soon))["status"] == "canceled"
    later = await given_job(conn, start_by=in_an_hour())
    assert [job.id for job in await claim(conn, worker, limit=5)] == [later]
    assert await expire_queued(conn) == 0


@pytest.mark.parametrize("types", [("report.build",), ("report.build", "other")])
async def test_no_claim_starts_what_is_late_and_those_behind_are_not_held_up(conn, types):
    late = [await given_job(conn, priority=9, expires_in=HOUR) for _ in range(30)]
    ready = await given_job(conn)
    await let_expire(conn, *late)
    claimed = await claim(conn, await given_worker(conn, *types), limit=5)
    assert [job.id for job in claimed] == [ready]
    statuses = await conn.fetch("select distinct status::text from atlas.jobs where id = any ($1)", late)
    assert [row[0] for row in statuses] == ["canceled"]


async def test_hosts_and_remote_workers_get_nothing_late_and_a_capped_time_limit(conn):
    host_id = await given_host(conn)
    late = await given_job(conn, host_id=host_id, expires_in=HOUR)
    await let_expire(conn, late)
    fine = await given_job(
        conn, host_id=host_id, finish_by=datetime.now(UTC) + timedelta(seconds=100), timeout_seconds=500
    )
    found = await claim_for_host(conn, host_id, lease=60)
    assert found is not None
    assert found.job.id == fine
    assert 50 < found.job.timeout_seconds <= 100
    assert (await load(conn, late))["status"] == "canceled"
    plain = await given_job(conn, timeout_seconds=500)
    [leased] = await claim_for_worker(conn, host_id, SYSTEM_TENANT, ["report.build"], limit=5, lease=60)
    assert (leased.job.id, leased.job.timeout_seconds) == (plain, 500)


async def test_expiry_and_claim_race_and_each_job_meets_one_of_them(pool):
    async with pool.acquire() as conn:
        worker = await given_worker(conn, "report.build")
        jobs = [NewJob("report.build", {}, expires_in=timedelta(milliseconds=n % 300)) for n in range(1, 300)]
        await enqueue_many(conn, jobs, actor=DANA)
    claimed: list[object] = []

    async def take() -> None:
        async with pool.acquire() as one:
            for _ in range(40):
                claimed.extend(job.id for job in await claim(one, worker, limit=3))
                await asyncio.sleep(0.005)

    async def expire() -> None:
        async with pool.acquire() as one:
            for _ in range(60):
                await expire_queued(one, limit=7)
                await asyncio.sleep(0.005)

    await asyncio.gather(take(), expire())
    async with pool.acquire() as conn:
        while await expire_queued(conn):
            pass
        statuses = dict(await conn.fetch("select status::text, count(*) from atlas.jobs group by 1"))
        late = await conn.fetchval("select count(*) from atlas.jobs where status = 'running' and started_at > start_by")
        canceled = await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_CANCELED'")
    assert len(claimed) == len(set(claimed)) == statuses.get("running", 0)
    assert canceled == statuses.get("canceled", 0)
    assert sum(statuses.values()) == 299
    assert set(statuses) <= {"running", "canceled"}
    assert late == 0


async def test_jobs_expire_while_atlas_is_offline(conn):
    job_id = await given_job(conn, expires_in=HOUR)
    await switch(conn, online=False, actor=DANA)
    await let_expire(conn, job_id)
    await sweep(conn)
    assert (await load(conn, job_id))["status"] == "canceled"


async def test_what_was_only_released_may_still_expire_and_what_has_begun_may_not(conn):
    worker, job = await given_claimed(conn, expires_in=HOUR)
    await finish(conn, worker, [release(job)])
    await let_expire(conn, job.id)
    assert await expire_queued(conn) == 1
    for error in (ValueError("x"), Snooze(5)):
        worker, job = await given_claimed(conn, expires_in=HOUR)
        await finish(conn, worker, [decide(job, worker.id, error, ATLAS)])
        assert (await load(conn, job.id))["start_by"] is None
    worker, job = await given_claimed(conn, expires_in=HOUR)
    await lose_lease(conn, worker)
    await reap(conn)
    assert (await load(conn, job.id))["start_by"] is None


async def test_a_job_that_could_not_finish_in_time_expires_before_its_next_attempt(conn):
    worker, job = await given_claimed(conn, finish_by=in_an_hour())
    await finish(conn, worker, [decide(job, worker.id, ValueError("x"), ATLAS)])
    row = await load(conn, job.id)
    assert row["start_by"] == row["finish_by"] is not None
    await conn.execute("update atlas.jobs set finish_by = clock_timestamp() - interval '1 s'")
    await conn.execute("update atlas.jobs set start_by = finish_by")
    await make_due(conn, job.id)
    assert await claim(conn, worker, limit=1) == []
    assert "it was to finish by" in orjson.loads((await load(conn, job.id))["error"])["message"]


async def test_a_retry_that_would_begin_after_finish_by_is_not_made(conn):
    policy = RetryPolicy(base=600, factor=1, jitter=0)
    worker, job = await given_claimed(conn, finish_by=datetime.now(UTC) + timedelta(seconds=300))
    await finish(conn, worker, [decide(job, worker.id, ValueError("the disk is full"), policy)])
    row = await load(conn, job.id)
    message = orjson.loads(row["error"])["message"]
    assert row["status"] == "failed"
    assert "the disk is full" in message
    assert "not retried" in message
    assert "finish_by" in message
    assert (await actions(conn, job.id))[-1] == "JOB_FAILED"
    worker, job = await given_claimed(conn, finish_by=datetime.now(UTC) + timedelta(seconds=900))
    await finish(conn, worker, [decide(job, worker.id, ValueError("x"), policy)])
    assert (await load(conn, job.id))["status"] == "queued"


async def test_a_claimed_job_whose_worker_did_not_begin_in_time_is_canceled_as_expired(conn):
    worker, job = await given_claimed(conn, expires_in=HOUR)
    assert job.start_before is not None
    assert time.monotonic() < job.start_before < time.monotonic() + 3601
    await finish(conn, worker, [decide(job, worker.id, JobExpired("It expired."), ATLAS)])
    row = await load(conn, job.id)
    assert (row["status"], orjson.loads(row["error"])["reason"]) == ("canceled", "expired")
    meta = orjson.loads(await conn.fetchval("select meta from atlas.audit_log where action = 'JOB_CANCELED'"))
    assert meta == {"reason": "expired", "attempt": 1}


async def test_an_operators_retry_drops_deadlines_that_are_over(conn):
    job_id = await given_job(conn, expires_in=HOUR, finish_by=in_an_hour() + HOUR)
    await let_expire(conn, job_id)
    await expire_queued(conn)
    await retry_now(conn, job_id, actor=DANA)
    row = await load(conn, job_id)
    assert row["status"] == "queued"
    assert row["start_by"] == row["finish_by"] > datetime.now(UTC)
    assert await expire_queued(conn) == 0


async def test_the_earliest_deadline_counts_and_sql_has_the_same_arguments(conn):
    finish_by = in_an_hour()
    job_id = await given_job(conn, expires_in=2 * HOUR, finish_by=finish_by)
    assert (await load(conn, job_id))["start_by"] == finish_by
    made = await call(conn, "t", {}, allow_unknown=True, expires_in=HOUR, finish_by=finish_by + HOUR)
    row = await load(conn, made.id)
    assert timedelta(minutes=59) < row["start_by"] - row["created_at"] <= HOUR
    assert row["finish_by"] == finish_by + HOUR


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({"expires_in": timedelta()}, "is not between"),
        ({"expires_in": HOUR, "start_by": in_an_hour()}, "cannot be combined with start_by"),
        ({"expires_in": HOUR, "delay": HOUR}, "never start"),
        ({"start_by": in_an_hour(), "run_at": in_an_hour() + HOUR}, "never start"),
        ({"finish_by": datetime(2030, 1, 1)}, "no time zone"),
    ],
)
async def test_deadlines_that_make_no_sense_are_refused(conn, terms, reason):
    with pytest.raises(InvalidInput, match=reason):
        await given_job(conn, **terms)


async def test_sql_refuses_them_too(conn):
    with pytest.raises(asyncpg.PostgresError, match="is not between"):
        await conn.execute("select atlas.enqueue('system', 't', allow_unknown => true, expires_in => '-1 hour')")
