"""Races: every pair of closing writes on one job, in both orders and at once; and a machine of random verbs."""

import asyncio
import itertools
import random

import pytest

from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lease import heartbeat, reap
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import JobCanceled, decide, release
from tests.engine.jobs.given import (
    DANA,
    actions,
    given_claimed,
    given_job,
    given_worker,
    load,
    lose_lease,
    success,
)
from tests.support import PROOF, some

ENDINGS = {
    "JOB_SUCCEEDED",
    "JOB_RETRY_SCHEDULED",
    "JOB_FAILED",
    "JOB_EXHAUSTED_RETRIES",
    "JOB_CANCELED",
    "LEASE_EXPIRED",
    "JOB_POISONED",
}


async def do(verb: str, conn, worker, job) -> None:
    match verb:
        case "finish":
            await finish(conn, worker, [success(worker, job)])
        case "fail":
            await finish(conn, worker, [decide(job, worker.id, ValueError("x"), ATLAS)])
        case "release":
            await finish(conn, worker, [release(job)])
        case "confirm cancel":
            await finish(conn, worker, [decide(job, worker.id, JobCanceled("x"), ATLAS)])
        case "cancel":
            await change_many(conn, "cancel", [job.id], actor=DANA, tenant_id=None)
        case "reap":
            await reap(conn)
        case "heartbeat":
            await heartbeat(conn, worker.id, lease=60, running=1)
        case "expire":
            await lose_lease(conn, worker)
            await reap(conn)


VERBS = ["finish", "fail", "release", "confirm cancel", "cancel", "reap", "heartbeat", "expire"]


@pytest.mark.parametrize(("first", "second"), some(list(itertools.permutations(VERBS, 2)), every=3))
async def test_two_writes_in_a_row_leave_one_outcome_of_the_attempt(conn, first, second):
    worker, job = await given_claimed(conn)
    await do(first, conn, worker, job)
    await do(second, conn, worker, job)
    endings = [action for action in await actions(conn, job.id) if action in ENDINGS]
    assert len(endings) <= 1 + (endings[:1] == ["LEASE_EXPIRED"] and "cancel" in (first, second)) + (
        endings[:1] == ["JOB_RETRY_SCHEDULED"] and second == "cancel"
    )
    attempts = await conn.fetchval("select count(*) from atlas.job_runs where job_id = $1 and attempt_no = 1", job.id)
    assert attempts <= 1


@pytest.mark.parametrize(("one", "other"), some(list(itertools.combinations(VERBS, 2)), every=3))
async def test_two_writes_at_once_leave_one_outcome_of_the_attempt(pool, one, other):
    async with pool.acquire() as left, pool.acquire() as right:
        for n in range(3):
            worker, job = await given_claimed(left, f"raced.{n}")
            pair = [do(one, left, worker, job), do(other, right, worker, job)]
            await asyncio.gather(*(pair if n % 2 else reversed(pair)))
            rows = await left.fetch(
                "select status from atlas.job_attempts where job_id = $1 and attempt_no = 1", job.id
            )
            assert len(rows) <= 1
            row = await load(left, job.id)
            if row["status"] in ("succeeded", "failed", "canceled"):
                assert row["finished_at"] is not None


RECORDER = """
create table illegal (old atlas.job_status, new atlas.job_status, id uuid, verb text);
create function record_illegal() returns trigger language plpgsql as $$
begin
  if not ((old.status, new.status) in (
      ('queued','queued'), ('queued','running'), ('queued','canceled'), ('running','running'), ('running','queued'),
      ('running','succeeded'), ('running','failed'), ('running','canceled'), ('failed','queued'), ('canceled','queued')))
    or (old.status in ('succeeded','failed','canceled') and new.status = old.status and new is distinct from old)
    or new.attempt_count < old.attempt_count
    or (old.status = 'queued' and new.status = 'running' and old.next_retry_at > clock_timestamp())
  then
    insert into illegal values (old.status, new.status, old.id, current_query());
  end if;
  return new;
end $$;
create trigger recorder before update on atlas.jobs for each row execute function record_illegal();
grant all on illegal to public;
"""

STORM_STEPS = 600 if PROOF else 120


async def given_canceled(conn, key: str):
    """A job that ended and gave its key back."""
    job_id = await given_job(conn, dedupe_key=key)
    await change_many(conn, "cancel", [job_id], actor=DANA, tenant_id=None)
    return job_id


WAITS = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"


async def in_a_deadlock(conn, owner, waits, hinders, *, first):
    """What a verb returns that Postgres ended by a deadlock."""
    await owner.execute("set deadlock_timeout = '1min'")
    async with owner.transaction():
        await first(owner)
        verb = asyncio.create_task(waits(conn))
        async with asyncio.timeout(10):
            while not await owner.fetchval(WAITS):
                await asyncio.sleep(0.01)
            await hinders(owner)
    return await verb


async def test_bulk_enqueues_of_the_same_keys_in_another_order_are_all_made(conn, owner):
    def keyed(*keys):
        jobs = [NewJob("report.build", {"n": 1}, dedupe_key=key) for key in keys]
        return lambda conn: enqueue_many(conn, jobs, actor=DANA)

    made = await in_a_deadlock(conn, owner, keyed("b", "a"), keyed("b"), first=keyed("a"))
    assert [one.deduplicated for one in made] == [True, True]
    assert await conn.fetchval("select count(*) from atlas.jobs") == 2


async def test_bulk_retries_of_the_same_keys_in_another_order_are_all_answered(conn, owner):
    a, b, other_b, other_a = [await given_canceled(conn, key) for key in ("a", "b", "b", "a")]

    def of(*ids):
        return lambda conn: change_many(conn, "retry", ids, actor=DANA, tenant_id=None)

    result = await in_a_deadlock(conn, owner, of(other_b, other_a), of(b), first=of(a))
    assert result == {other_b: "conflict", other_a: "conflict"}


async def test_a_delete_that_waits_for_one_who_waits_for_it_is_done_all_the_same(conn, owner):
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [decide(job, worker.id, ValueError("x"), ATLAS)])
    await in_a_deadlock(
        conn,
        owner,
        lambda conn: delete(conn, job.id, actor=DANA),
        lambda owner: owner.execute("select from atlas.jobs where id = $1 for update", job.id),
        first=lambda owner: owner.execute("select from atlas.job_attempts where job_id = $1 for update", job.id),
    )
    assert await load(conn, job.id) is None


@pytest.mark.long
async def test_a_storm_of_verbs_makes_no_illegal_move_and_loses_nothing(pool, owner):
    """Eight connections throw random verbs at 60 jobs; a trigger writes down every move that may not be."""
    await owner.execute(RECORDER)
    async with pool.acquire() as conn:
        ids = [await given_job(conn, "storm", max_retries=50, priority=n % 3) for n in range(60)]

    async def thrower(seed: int):
        dice = random.Random(seed)
        async with pool.acquire() as conn:
            worker = await given_worker(conn, "storm")
            held = []
            for _ in range(STORM_STEPS):
                roll = dice.random()
                if roll < 0.45:
                    held += await claim(conn, worker, limit=dice.randint(1, 8))
                elif roll < 0.8 and held:
                    dice.shuffle(held)
                    part = [held.pop() for _ in range(dice.randint(1, len(held)))]
                    kinds = [
                        lambda job: success(worker, job),
                        lambda job: decide(job, worker.id, ValueError("x"), ATLAS),
                        release,
                    ]
                    await finish(conn, worker, [dice.choice(kinds)(job) for job in part])
                elif roll < 0.86:
                    await change_many(conn, "cancel", dice.sample(ids, 5), actor=DANA, tenant_id=None)
                elif roll < 0.93:
                    await change_many(conn, "retry", dice.sample(ids, 10), actor=DANA, tenant_id=None)
                elif roll < 0.97:
                    await conn.execute(
                        "update atlas.jobs set next_retry_at = clock_timestamp() where status = 'queued' and next_retry_at is not null and id = $1",
                        dice.choice(ids),
                    )
                else:
                    await lose_lease(conn, worker)
                    await reap(conn)
                    worker = await given_worker(conn, "storm")
                    held = []

    await asyncio.gather(*(thrower(seed) for seed in range(8)))
    illegal = await owner.fetch("select * from illegal")
    assert illegal == []
    assert await owner.fetchval("select count(*) from atlas.jobs") == 60
    # Every closed attempt has exactly one row or is shown by its job row; every event is one move.
    doubled = await owner.fetch("select job_id, attempt_no from atlas.job_runs group by 1, 2 having count(*) > 1")
    assert doubled == []
