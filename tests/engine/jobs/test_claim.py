"""Claim: higher priority first, then oldest; never early; never past the gate, a limit or another's job."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from atlas.db.statements import Statement
from atlas.engine.jobs.claim import Claimant, UnknownTurnRow, claim, run_turn
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import Finish, finish, finish_and_claim
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import snooze
from tests.engine.jobs.given import (
    DANA,
    attempts,
    given_host,
    given_job,
    given_worker,
    load,
    lose_lease,
    make_due,
    success,
)


@pytest.mark.parametrize("types", [["report.build"], ["report.build", "report.send"]], ids=["one type", "two types"])
async def test_higher_priority_comes_first_and_age_decides_between_equals(conn, types):
    low = await given_job(conn, priority=-1)
    first = await given_job(conn, priority=5)
    second = await given_job(conn, priority=5)
    high = await given_job(conn, priority=9)
    worker = await given_worker(conn, *types)

    taken = [(await claim(conn, worker, limit=1))[0].id for _ in range(4)]
    assert taken == [high, first, second, low]


async def test_a_claim_passes_over_what_another_one_has_locked_of_the_only_type_with_jobs(pool, conn):
    jobs = [await given_job(conn) for _ in range(5)]
    worker = await given_worker(conn, "report.build", "report.send")
    async with pool.acquire() as other, other.transaction():
        first = await claim(other, worker, limit=2)
        second = await claim(conn, worker, limit=2)
    third = await claim(conn, worker, limit=2)
    assert [[job.id for job in claimed] for claimed in (first, second, third)] == [jobs[:2], jobs[2:4], jobs[4:]]


async def test_a_claim_starts_the_job_under_its_worker(conn):
    job_id = await given_job(conn, correlation_id="c")
    worker = await given_worker(conn, "report.build")

    [job] = await claim(conn, worker, limit=5)
    row = await load(conn, job_id)
    assert (job.id, job.attempt, job.correlation_id) == (job_id, 1, "c")
    assert (row["status"], row["claimed_by"], row["attempt_count"]) == ("running", worker.id, 1)
    assert row["started_at"] is not None
    assert await attempts(conn, job_id) == [(1, "running", None)]


async def test_a_claim_is_flushed_when_it_has_returned(conn):
    """So that no crash of the server can undo it: its handler begins now."""
    worker = await given_worker(conn, "report.build")
    flushed = 0
    for _ in range(20):
        await given_job(conn)
        before = await conn.fetchval("select pg_current_wal_insert_lsn()")
        assert len(await claim(conn, worker, limit=1)) == 1
        flushed += await conn.fetchval("select pg_current_wal_flush_lsn() > $1::pg_lsn", before)
    assert flushed == 20


async def test_a_job_is_never_claimed_before_its_time_and_at_once_after_it(conn):
    job_id = await given_job(conn, delay=timedelta(seconds=60), priority=9)
    worker = await given_worker(conn, "report.build")

    assert await claim(conn, worker, limit=5) == []
    await make_due(conn, job_id)
    assert [job.id for job in await claim(conn, worker, limit=5)] == [job_id]


async def test_a_due_retry_of_high_priority_passes_what_is_ready(conn):
    ready = await given_job(conn, priority=1)
    retry = await given_job(conn, priority=5, delay=timedelta(seconds=60))
    await make_due(conn, retry)
    worker = await given_worker(conn, "report.build")

    assert [job.id for job in await claim(conn, worker, limit=1)] == [retry]
    assert [job.id for job in await claim(conn, worker, limit=1)] == [ready]


async def test_a_worker_takes_only_the_types_it_serves(conn):
    for job_type in ("a", "b", "c"):
        await given_job(conn, job_type)

    one = await given_worker(conn, "a")
    two = await given_worker(conn, "b", "x")
    assert [job.job_type for job in await claim(conn, one, limit=9)] == ["a"]
    assert [job.job_type for job in await claim(conn, two, limit=9)] == ["b"]
    everything = await given_worker(conn)
    assert [job.job_type for job in await claim(conn, everything, limit=9)] == ["c"]


async def test_several_types_beside_strangers_keep_one_order(conn):
    await given_job(conn, "stranger", priority=99)
    ids = [await given_job(conn, "ab"[n % 2], priority=n % 3) for n in range(12)]
    worker = await given_worker(conn, "a", "b")

    taken = []
    while batch := await claim(conn, worker, limit=5):
        rows = [await load(conn, job.id) for job in batch]
        taken.append(rows)
    keys = [sorted((-row["priority"], row["created_at"]) for row in rows) for rows in taken]
    assert sorted(row["id"] for rows in taken for row in rows) == sorted(ids)
    assert all(keys[n][-1] <= keys[n + 1][0] for n in range(len(keys) - 1))


async def test_many_types_of_a_tenant_keep_one_order(conn):
    jobs = [NewJob(f"type.{n * n % 7}", {}, priority=n * 5 % 3) for n in range(120)]
    await enqueue_many(conn, jobs, actor=DANA)
    # All of the oldest are of one type.
    await conn.execute(
        "update atlas.jobs set created_at = created_at - interval '1 hour' where job_type = 'type.4' and priority = 2"
    )
    order = await conn.fetch("select id, priority, created_at from atlas.jobs order by priority desc, created_at, ctid")
    place = {row["id"]: nth for nth, row in enumerate(order)}
    worker = await given_worker(conn, *(f"type.{n}" for n in range(7)))

    taken = []
    while batch := await claim(conn, worker, limit=17):
        taken.append(sorted(place[job.id] for job in batch))
    assert [nth for batch in taken for nth in batch] == list(range(120))


async def test_a_claim_of_many_types_locks_few_more_jobs_than_it_takes(pool, conn):
    await enqueue_many(conn, [NewJob(f"type.{n % 20}", {}) for n in range(1000)], actor=DANA)
    worker = await given_worker(conn, *(f"type.{n}" for n in range(20)))

    async with conn.transaction():
        assert len(await claim(conn, worker, limit=100)) == 100
        async with pool.acquire() as other:
            free = await other.fetch("select from atlas.jobs where status = 'queued' for update skip locked")
    assert len(free) >= 750


async def test_host_bound_jobs_are_left_to_their_host(conn):
    await given_job(conn, host_id=await given_host(conn))
    worker = await given_worker(conn)
    assert await claim(conn, worker, limit=5) == []


async def test_while_the_gate_is_off_the_turn_says_closed_and_finishes_all_the_same(conn):
    await given_job(conn)
    await given_job(conn)
    worker = await given_worker(conn, "report.build")
    [job] = await claim(conn, worker, limit=1)
    await switch(conn, online=False, actor=DANA, reason="provider outage")

    turn = await finish_and_claim(conn, worker, [success(worker, job)], slots=5)
    assert (turn.claimed, turn.closed, turn.lost) == ([], True, [])
    assert (await load(conn, job.id))["status"] == "succeeded"


async def test_a_missing_gate_row_means_offline(conn):
    await given_job(conn)
    await conn.execute("delete from atlas.system_state")
    worker = await given_worker(conn, "report.build")
    assert (await finish_and_claim(conn, worker, slots=5)).closed


async def test_a_dead_or_unknown_worker_claims_nothing(conn):
    await given_job(conn)
    worker = await given_worker(conn, "report.build")
    await lose_lease(conn, worker)

    assert (await finish_and_claim(conn, worker, slots=5)).closed
    assert (await finish_and_claim(conn, Claimant("nobody", None), slots=5)).closed


async def test_a_claim_in_a_repeatable_read_transaction_is_refused(conn):
    worker = await given_worker(conn, "report.build")
    with pytest.raises(asyncpg.InvalidTransactionStateError, match="READ COMMITTED"):
        async with conn.transaction(isolation="repeatable_read"):
            await claim(conn, worker, limit=1)


async def test_workers_racing_for_jobs_never_get_the_same_one(pool):
    async with pool.acquire() as conn:
        await enqueue_many(conn, [NewJob("raced", {"n": n}, priority=n % 7) for n in range(2000)], actor=DANA)

    async def race():
        async with pool.acquire() as conn:
            worker = await given_worker(conn, "raced")
            taken = []
            while batch := await claim(conn, worker, limit=17):
                taken += [job.id for job in batch]
            return taken

    taken = [job_id for part in await asyncio.gather(*(race() for _ in range(8))) for job_id in part]
    assert len(taken) == len(set(taken)) == 2000


async def test_a_job_retried_without_delay_is_claimed_in_the_same_turn(conn):
    await given_job(conn)
    worker = await given_worker(conn, "report.build")
    [job] = await claim(conn, worker, limit=1)

    turn = await finish_and_claim(conn, worker, [Finish(job.id, job.attempt, "queued")], slots=1)
    assert [again.id for again in turn.claimed] == [job.id]
    assert turn.claimed[0].attempt == 2


async def test_snooze_and_release_count_neither_retries_nor_losses(conn):
    job_id = await given_job(conn)
    worker = await given_worker(conn, "report.build")
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [snooze(job, 60)])

    row = await load(conn, job_id)
    assert (row["status"], row["retry_count"], row["lost_count"], row["attempt_count"]) == ("queued", 0, 0, 1)
    assert row["next_retry_at"] is not None
    assert await attempts(conn, job_id) == [(1, "canceled", "snoozed")]


class TestLimits:
    async def test_a_type_with_a_limit_never_runs_more_than_that_across_workers(self, pool):
        async with pool.acquire() as conn:
            await conn.execute("insert into atlas.job_types (key, concurrency) values ('limited', 3)")
            await enqueue_many(conn, [NewJob("limited", {"n": n}) for n in range(60)], actor=DANA)
        most = total = 0

        async def work():
            nonlocal most, total
            async with pool.acquire() as conn:
                worker = await given_worker(conn, "limited")
                done: list[Finish] = []
                for _ in range(200):
                    if total == 60:
                        break
                    turn = await finish_and_claim(conn, worker, done, slots=5)
                    total += len(done)
                    running = await conn.fetchval("select count(*) from atlas.jobs where status = 'running'")
                    most = max(most, running)
                    done = [success(worker, job) for job in turn.claimed]
                    await asyncio.sleep(0)

        await asyncio.gather(*(work() for _ in range(8)))
        assert total == 60
        assert most == 3

    async def test_a_tenant_has_at_most_its_number_in_flight(self, conn):
        tenant = await conn.fetchval(
            """insert into atlas.tenants (slug, name, limits) values ('acme', 'Acme', '{"in_flight": 2}') returning id"""
        )
        await enqueue_many(conn, [NewJob("ab"[n % 2], {}, tenant) for n in range(10)], actor=DANA)
        other = await given_job(conn, "a", priority=-5)
        worker = await given_worker(conn)

        taken = []
        for _ in range(5):
            taken += (await finish_and_claim(conn, worker, slots=20)).claimed
        assert sorted(job.tenant_id == tenant for job in taken) == [False, True, True]
        assert other in {job.id for job in taken}

    async def test_a_limit_that_is_lifted_lets_everything_go(self, conn):
        await conn.execute("insert into atlas.job_types (key, concurrency) values ('limited', 1)")
        await enqueue_many(conn, [NewJob("limited", {}) for _ in range(10)], actor=DANA)
        worker = await given_worker(conn, "limited")
        for _ in range(3):
            await finish_and_claim(conn, worker, slots=20)
        assert await conn.fetchval("select count(*) from atlas.jobs where status = 'running'") == 1

        await conn.execute("update atlas.job_types set concurrency = null")
        await finish_and_claim(conn, worker, slots=20)
        assert await conn.fetchval("select count(*) from atlas.jobs where status = 'running'") == 10

    async def test_limited_jobs_keep_their_place_by_priority(self, conn):
        await conn.execute("insert into atlas.job_types (key, concurrency) values ('limited', 5)")
        await given_job(conn, "free", priority=1)
        await given_job(conn, "limited", priority=9)
        worker = await given_worker(conn)
        first = await finish_and_claim(conn, worker, slots=1)
        second = await finish_and_claim(conn, worker, slots=1)
        assert first.again
        assert [job.job_type for turn in (first, second) for job in turn.claimed] == ["limited"]

    async def test_limited_jobs_are_never_prefetched(self, conn):
        await conn.execute("insert into atlas.job_types (key, concurrency) values ('limited', 50)")
        await enqueue_many(conn, [NewJob("limited", {}) for _ in range(10)], actor=DANA)
        worker = await given_worker(conn, "limited")
        for _ in range(3):
            await finish_and_claim(conn, worker, slots=0, prefetch=20)
        assert await conn.fetchval("select count(*) from atlas.jobs where status = 'running'") == 0


async def test_jobs_that_were_lost_twice_are_claimed_one_at_a_time_with_empty_hands(conn):
    suspects = {await given_job(conn), await given_job(conn)}
    await conn.execute("update atlas.jobs set lost_count = 2, careful = true")
    ready = await given_job(conn)
    busy, idle = await given_worker(conn, "report.build"), await given_worker(conn, "report.build")

    turn = await finish_and_claim(conn, busy, slots=5)
    assert ([job.id for job in turn.claimed], turn.solo_waits, turn.is_empty) == ([ready], True, False)

    taken = [await claim(conn, idle, limit=5) for _ in range(3)]
    assert [len(jobs) for jobs in taken] == [1, 1, 0]
    assert {job.id for jobs in taken for job in jobs} == suspects


async def test_a_row_of_an_unknown_kind_is_an_error_and_not_a_reason_to_ask_again(conn):
    later = Statement("later.sql", "select 'later' as kind")
    with pytest.raises(UnknownTurnRow, match="'later'.* upgrade this program"):
        await run_turn(conn, later, {}, within=None)
