"""Usage: every finished attempt is metered exactly once, however it ended and whenever it was committed."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from atlas.audit.record import Event, record
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.backoff import CAPPED, policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import Notes, finish
from atlas.engine.jobs.lease import reap, record_undone
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import JobCanceled, JobTimeout, decide, snooze, succeed
from atlas.engine.metering.usage import meter_usage, read_usage
from tests.engine.jobs.given import given_claimed, given_job, given_worker, lose_lease, make_due, success
from tests.support import DANA

pytestmark = pytest.mark.usefixtures("online")


async def metered(conn) -> dict[str, int]:
    while await meter_usage(conn, limit=7):
        pass
    found = await read_usage(conn)
    columns = ("runs", "succeeded", "failed", "timed_out", "canceled", "lost", "cost_cents")
    return {
        name: sum(getattr(one, name) for one in found) for name in columns if sum(getattr(one, name) for one in found)
    }


async def test_every_outcome_is_metered_under_its_name(conn):
    policy = policy_of(None)
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [success(worker, job)])
    for error in (ValueError("no"), JobTimeout("late"), JobCanceled("stop")):
        worker, job = await given_claimed(conn, max_retries=0)
        await finish(conn, worker, [decide(job, worker.id, error, policy)])
    worker, job = await given_claimed(conn)
    await lose_lease(conn, worker)
    await reap(conn)

    assert await metered(conn) == {"runs": 5, "succeeded": 1, "failed": 1, "timed_out": 1, "canceled": 1, "lost": 1}
    assert await metered(conn) == {"runs": 5, "succeeded": 1, "failed": 1, "timed_out": 1, "canceled": 1, "lost": 1}


async def test_retries_are_runs_of_their_own_and_a_snooze_is_none(conn):
    worker, job = await given_claimed(conn, max_retries=5)
    await finish(conn, worker, [decide(job, worker.id, ValueError("no"), policy_of(None))])
    await make_due(conn, job.id)
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [snooze(job, 10)])
    await make_due(conn, job.id)
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, job)])

    assert await metered(conn) == {"runs": 2, "succeeded": 1, "failed": 1}


async def test_a_queued_job_that_is_canceled_was_no_run(conn):
    await cancel(conn, await given_job(conn), actor=DANA)
    assert await metered(conn) == {}


async def test_costs_are_metered_once_over_all_attempts_of_a_job(conn):
    policy = policy_of(None)
    worker, job = await given_claimed(conn, max_retries=0)
    await finish(conn, worker, [decide(job, worker.id, ValueError("no"), policy, Notes(cost=5))])
    assert await metered(conn) == {"runs": 1, "failed": 1, "cost_cents": 5}
    await retry_now(conn, job.id, actor=DANA)
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED", Notes(cost=7))])

    assert await metered(conn) == {"runs": 2, "succeeded": 1, "failed": 1, "cost_cents": 12}
    assert await conn.fetchval("select cost_cents from atlas.jobs") == 12


async def test_an_attempt_that_another_worker_runs_under_the_same_number_is_one_run(conn):
    worker, job = await given_claimed(conn)
    await record_undone(conn, "host:1:other", [(job.id, job.attempt)])
    assert await metered(conn) == {}

    await finish(conn, worker, [success(worker, job)])
    assert await metered(conn) == {"runs": 1, "succeeded": 1}


async def test_a_restored_audit_log_is_not_metered_again(conn, owner):
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [success(worker, job)])
    assert await metered(conn) == {"runs": 1, "succeeded": 1}

    # As a dump says it in another cluster: both the meter's place and the newest epoch belong to the old one.
    await owner.execute("update atlas.system_state set value = value || '{\"cluster\": 42}' where key = 'usage_meter'")
    await owner.execute("alter table atlas.audit_epoch disable trigger all")
    await owner.execute("update atlas.audit_epoch set system_identifier = 42")
    await owner.execute("alter table atlas.audit_epoch enable always trigger audit_epoch_append_only")
    assert await metered(conn) == {"runs": 1, "succeeded": 1}

    await owner.execute("select atlas.audit_new_epoch('restored', 'user', 'dana', '{}')")
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [success(worker, job)])
    assert await metered(conn) == {"runs": 2, "succeeded": 2}


async def test_an_attempt_that_is_committed_late_is_metered_all_the_same(pool, conn):
    first, slow = await given_claimed(conn)
    second, quick = await given_claimed(conn)
    async with pool.acquire() as other:
        late = other.transaction()
        await late.start()
        await finish(other, first, [success(first, slow)])
        await finish(conn, second, [success(second, quick)])
        assert await metered(conn) == {"runs": 1, "succeeded": 1}
        await late.commit()

    assert await metered(conn) == {"runs": 2, "succeeded": 2}


async def test_a_job_that_was_deleted_before_it_was_metered_still_counts(conn):
    worker, job = await given_claimed(conn, max_retries=0)
    await finish(conn, worker, [decide(job, worker.id, ValueError("no"), policy_of(None))])
    await delete(conn, job.id, actor=DANA)

    assert await metered(conn) == {"runs": 1, "failed": 1}
    assert [one.job_type for one in await read_usage(conn)] == ["report.build"]


@pytest.mark.long
async def test_meters_at_once_and_meters_that_die_count_nothing_twice(pool, conn):
    worker = await given_worker(conn)
    for _ in range(60):
        await given_job(conn)
    for job in await claim(conn, worker, limit=60):
        await finish(conn, worker, [success(worker, job)])

    async def meter() -> None:
        async with pool.acquire() as own:
            for _ in range(30):
                died = own.transaction()
                await died.start()
                await meter_usage(own, limit=3)
                await died.rollback()
                await meter_usage(own, limit=3)

    await asyncio.gather(*(meter() for _ in range(3)))

    assert await metered(conn) == {"runs": 60, "succeeded": 60}


async def test_the_time_in_the_queue_begins_when_a_job_is_due(conn):
    worker = await given_worker(conn, "t")
    delayed = (await enqueue(conn, NewJob("t", delay=timedelta(hours=1)), actor=DANA)).id
    canceled = (await enqueue(conn, NewJob("t", delay=timedelta(hours=2)), actor=DANA)).id
    planned = (await get_job(conn, delayed)).scheduled_for
    await cancel(conn, canceled, actor=DANA)
    # An hour and a minute pass.
    passed = "update atlas.jobs set created_at = created_at - interval '61 minutes'"
    await conn.execute(f"{passed}, next_retry_at = next_retry_at - interval '61 minutes'")
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [decide(job, worker.id, ValueError(), CAPPED)])
    # The retry is due a minute ago, and the meter has not counted the first attempt yet.
    await conn.execute(
        """update atlas.job_attempts set started_at = started_at - interval '5 minutes', due_at = due_at - interval '5 minutes',
             finished_at = finished_at - interval '5 minutes'"""
    )
    await conn.execute(
        "update atlas.jobs set next_retry_at = next_retry_at - interval '1 minute' where id = $1", delayed
    )
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, job)])
    assert await metered(conn) == {"runs": 2, "succeeded": 1, "failed": 1}

    [one] = await read_usage(conn)
    assert 100 < one.queue_seconds < 600
    waited = await conn.fetchval("select wait_seconds from atlas.job_totals where job_type = 't'")
    assert 55 < waited < 300
    shown = await get_job(conn, delayed)
    assert (shown.next_retry_at, shown.scheduled_for) == (None, planned)
    assert (await get_job(conn, canceled)).scheduled_for > planned


async def test_usage_is_kept_by_the_hour_with_its_seconds(conn):
    worker, job = await given_claimed(conn)
    hour = datetime(2027, 3, 1, 5, tzinfo=UTC)
    await conn.execute("update atlas.jobs set created_at = $1", hour + timedelta(minutes=1))
    await finish(conn, worker, [success(worker, job)])
    await conn.execute(
        "update atlas.jobs set started_at = $1, finished_at = $2",
        hour + timedelta(minutes=2),
        hour + timedelta(minutes=5),
    )
    await metered(conn)

    [one] = await read_usage(conn, tenant_id=job.tenant_id, start=hour, end=hour + timedelta(hours=1), by_hour=True)
    assert (one.hour, one.runs, one.run_seconds, one.queue_seconds) == (hour, 1, 180.0, 60.0)
    assert await read_usage(conn, start=hour + timedelta(hours=1)) == []
    [total] = await read_usage(conn)
    assert total.hour is None


async def test_a_handlers_own_facts_do_not_change_the_number_of_its_attempt(conn):
    worker, job = await given_claimed(conn)
    notes = Notes(audit_meta={"attempt": 1.5, "pages": 3})
    await finish(conn, worker, [succeed(job, worker.id, None, "REPORT_BUILT", notes)])

    assert (
        await conn.fetchval("select meta from atlas.audit_log where action = 'REPORT_BUILT'")
        == '{"pages": 3, "attempt": 1}'
    )
    assert await metered(conn) == {"runs": 1, "succeeded": 1}


@pytest.mark.parametrize("attempt", [1.5, -1, 3_000_000_000, 1e40, "1", None])
async def test_an_audit_row_of_an_attempt_without_a_number_stops_no_meter(conn, attempt):
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [success(worker, job)])
    await record(conn, Event("REPORT_BUILT", "job", str(job.id), DANA, job.tenant_id, meta={"attempt": attempt}))

    assert await metered(conn) == {"runs": 1, "succeeded": 1}
