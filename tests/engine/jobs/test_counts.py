"""Counts and totals of jobs: what is kept from the audit log is what the table says, whatever happened."""

from typing import Any
from uuid import UUID, uuid4

import pytest

import atlas.engine.jobs.lists.counts
import atlas.engine.jobs.lists.summary
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.lists.counts import count_jobs, counts_are_due, update_counts
from atlas.engine.jobs.lists.summary import COUNT, COUNTED, summarize
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import JobCanceled, PermanentError, decide, snooze, succeed
from atlas.engine.metering.usage import meter_usage
from tests.engine.jobs.given import given_claimed, given_job, given_worker, lose_lease, make_due, success
from tests.engine.jobs.test_list import FILL, MIXED, OTHERS, cost_of
from tests.engine.retention.test_retention import age, old, sweep
from tests.support import DANA, given_tenant

TABLE = """
select tenant_id, count(*) as jobs, count(*) filter (where status = 'succeeded') as succeeded,
  count(*) filter (where status = 'failed') as failed, count(*) filter (where status = 'canceled') as canceled,
  count(dead_lettered_at) as dead_letters
from atlas.jobs group by 1 order by 1"""
COUNTED_AT = "select value->>'counted_at' from atlas.system_state where key = 'job_counts'"
AGED = """
update atlas.system_state
set value = value || jsonb_build_object('counted_at', now() - $1::float8 * interval '1 hour', 'seconds', $2::float8)
where key = 'job_counts' returning value->>'counted_at'"""
KEPT = "select * from atlas.job_counts where jobs <> 0 order by tenant_id"


async def metered(conn: Any) -> None:
    while await meter_usage(conn, limit=7):
        pass


class InvoiceRefused(PermanentError):
    """A failure with an event of its own."""

    audit_action = "INVOICE_REFUSED"


async def do_everything(conn: Any) -> None:
    """Every way in which a job comes, ends, comes back and goes, but for retention."""
    policy = policy_of(None)
    worker, job = await given_claimed(conn, "good")
    await finish(conn, worker, [success(worker, job)])
    worker, job = await given_claimed(conn, "good")
    await finish(conn, worker, [succeed(job, worker.id, None, "INVOICE_SENT")])
    for error in (ValueError("no"), InvoiceRefused("no"), PermanentError("no"), JobCanceled("stop")):
        for then in (delete, retry_now, None):
            worker, job = await given_claimed(conn, f"bad.{uuid4()}", max_retries=0)
            await finish(conn, worker, [decide(job, worker.id, error, policy)])
            if then is not None:
                await then(conn, job.id, actor=DANA)
    worker, job = await given_claimed(conn, f"again.{uuid4()}", max_retries=5)
    await finish(conn, worker, [decide(job, worker.id, ValueError("no"), policy)])
    await make_due(conn, job.id)
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [snooze(job, 10)])
    queued = [await given_job(conn, "waits") for _ in range(3)]
    await cancel(conn, queued[0], actor=DANA)
    await delete(conn, queued[1], actor=DANA)
    poison = f"poison.{uuid4()}"
    job_id = await given_job(conn, poison)
    for _ in range(3):
        worker = await given_worker(conn, poison)
        assert await claim(conn, worker, limit=1)
        await lose_lease(conn, worker)
        await reap(conn)
        await make_due(conn, job_id)


@pytest.mark.long
@pytest.mark.parametrize("order", ["count first", "count last", "meter first"])
async def test_the_counts_kept_are_those_of_the_table(conn, pool, order):
    if order == "count first":
        await count_jobs(conn)
    if order == "meter first":
        await metered(conn)
    await do_everything(conn)
    if order != "count first":
        # The meter has not read what the count has seen, and does not add it a second time.
        await count_jobs(conn)
    await do_everything(conn)
    await metered(conn)
    assert [dict(row) for row in await conn.fetch(KEPT)] == [dict(row) for row in await conn.fetch(TABLE)]

    worker, job = await given_claimed(conn, "old", id=old())
    await finish(conn, worker, [success(worker, job)])
    await cancel(conn, await given_job(conn, "old", id=old()), actor=DANA)
    await age(conn)
    assert (await sweep(pool)).jobs == 2
    await metered(conn)
    assert [dict(row) for row in await conn.fetch(KEPT)] == [dict(row) for row in await conn.fetch(TABLE)]


async def test_what_commits_after_the_count_is_added_and_nothing_is_added_twice(pool, conn):
    tenant = await given_tenant(conn)
    await given_job(conn)
    async with pool.acquire() as slow, slow.transaction():
        await enqueue(slow, NewJob("late", {}, tenant), actor=DANA)
        await count_jobs(conn)
        await metered(conn)
    await metered(conn)
    assert [dict(row) for row in await conn.fetch(KEPT)] == [dict(row) for row in await conn.fetch(TABLE)]


async def test_rows_that_came_past_the_audit_log_are_noticed_and_counted(conn, pool, owner, monkeypatch):
    monkeypatch.setattr(atlas.engine.jobs.lists.counts, "MAX_UNKNOWN", 50)
    await update_counts(pool.acquire)
    await enqueue_many(conn, [NewJob("known", {}) for _ in range(100)], actor=DANA)
    await metered(conn)
    await conn.execute("select pg_stat_force_next_flush()")
    assert not await counts_are_due(conn)

    await owner.execute(
        "insert into atlas.jobs (tenant_id, job_type, status, finished_at)"
        " select $1::uuid, 'loaded', 'succeeded', now() from generate_series(1, 60)",
        await given_tenant(conn),
    )
    await owner.execute("select pg_stat_force_next_flush()")
    assert await counts_are_due(conn)
    assert await update_counts(pool.acquire)
    assert await conn.fetchval("select sum(jobs) from atlas.job_counts") == 160
    assert not await counts_are_due(conn)


@pytest.mark.parametrize(
    ("hours", "seconds", "is_due"), [(0.5, 0.1, False), (2, 0.1, True), (2, 20.0, False), (6, 20.0, True)]
)
async def test_a_count_is_repeated_the_less_often_the_longer_it_took_and_by_no_caller(
    conn, pool, hours, seconds, is_due
):
    await count_jobs(conn)
    assert await conn.fetchval("select value->>'seconds' from atlas.system_state where key = 'job_counts'") is not None
    counted_at = await conn.fetchval(AGED, hours, seconds)

    assert await counts_are_due(conn) is is_due
    assert await update_counts(pool.acquire)
    assert await conn.fetchval(COUNTED_AT) == counted_at


@pytest.mark.long
async def test_a_summary_behind_row_level_security_costs_the_same_beside_others(conn, owner):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    await owner.execute(FILL, mine, 700, MIXED, 1000)
    await owner.execute("vacuum analyze atlas.jobs")
    alone = await cost_of_counting(conn, mine)
    await owner.execute(FILL, other, OTHERS // 2, MIXED, 5)
    assert await cost_of_counting(conn, mine) <= alone * 1.5 + 60
    await owner.execute("vacuum analyze atlas.jobs")
    await count_jobs(conn)
    assert await cost_of_counting(conn, mine) <= alone * 1.5 + 60
    # What is kept is not counted: not one ended job is read.
    everything = await cost_of_counting(conn, None)
    assert everything < 4 * OTHERS // 2 * len(MIXED) // 100


async def cost_of_counting(conn: Any, tenant: UUID | None) -> int:
    """Buffers touched by a count, behind row-level security if a tenant asks."""
    return await cost_of(conn, COUNT, tenant, {"tenant_id": tenant, "most": COUNTED})


async def test_a_summary_that_cannot_update_the_counts_says_so(conn, pool, owner, monkeypatch):
    monkeypatch.setattr(atlas.engine.jobs.lists.summary, "COUNTED", 5)
    tenant = await given_tenant(conn)
    await owner.execute(FILL, tenant, 100, [], 1)
    await count_jobs(conn)
    await owner.execute("revoke insert, update on atlas.system_state from atlas_engine")
    await enqueue(conn, NewJob("more", {}, tenant), actor=DANA)

    summary = await summarize(pool.acquire, pool.acquire, pool.acquire, tenant_id=tenant)
    assert (summary.counts["succeeded"], summary.counts["queued"]) == (100, 1)
    assert set(summary.estimated) == {"succeeded", "failed", "canceled", "dead_letter"}


async def test_totals_have_the_times_of_every_attempt_but_lost_ones(conn):
    await do_everything(conn)
    await metered(conn)
    totals = await conn.fetchrow(
        "select sum(enqueued) as enqueued, sum(succeeded) as succeeded, sum(failed) as failed, sum(retried) as retried,"
        " sum(dead_lettered) as dead_lettered, sum(canceled) as canceled,"
        " sum((select sum(n) from unnest(runs) n)) as runs, sum((select sum(n) from unnest(waits) n)) as waits from atlas.job_totals"
    )
    assert dict(totals) == {
        "enqueued": 2 + 4 * 3 + 1 + 3 + 1,
        "succeeded": 2,
        "failed": 6,
        "retried": 1,
        "dead_lettered": 4,
        "canceled": 4,
        # Those of the four jobs that were deleted are not known any more.
        "runs": 2 + 4 * 2 + 1,
        "waits": 2 + 4 * 2 + 1,
    }


async def test_a_time_is_counted_in_the_bucket_whose_bound_it_reaches(conn, owner):
    bounds = await conn.fetchval("select atlas.duration_bounds()")
    for seconds in (0.0, bounds[0], bounds[0] + 1e-6, bounds[7], bounds[-1], bounds[-1] + 1):
        worker, job = await given_claimed(conn, "good")
        await finish(conn, worker, [success(worker, job)])
        await owner.execute(
            "update atlas.jobs set finished_at = started_at + make_interval(secs => $2) where id = $1", job.id, seconds
        )
    await metered(conn)
    counts = await conn.fetchval("select runs from atlas.job_totals where job_type = 'good'")
    expected = [0] * (len(bounds) + 1)
    for bucket in (0, 0, 1, 7, len(bounds) - 1, len(bounds)):
        expected[bucket] += 1
    assert counts == expected
