"""Rates: a token bucket on the database's clock; every start takes a token, and what lacks one waits in order."""

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim, claim_for_slots
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import finish_and_claim
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.verdicts import decide
from atlas.engine.tenants.tenants import edit_tenant, find_tenant
from atlas.errors import InvalidInput
from tests.engine.jobs.given import given_worker, load, make_due, success
from tests.engine.jobs.test_limits_by_key import KEY, given_keyed, given_limit, ids
from tests.support import DANA


async def pass_time(conn: Any, seconds: float) -> None:
    """The buckets were filled so long ago."""
    await conn.execute(
        "update atlas.job_limits set refilled_at = refilled_at - $1 * interval '1 second',"
        " release_at = release_at - $1 * interval '1 second'",
        seconds,
    )


async def test_the_burst_starts_at_once_and_the_rest_at_the_rate_in_order(conn):
    await given_limit(conn, None, None, rate="60/hour", burst=3)
    jobs = await given_keyed(conn, *range(8))
    worker = await given_worker(conn, "keyed")
    assert await ids(conn, worker) == jobs[:3]
    assert await ids(conn, worker) == []

    await pass_time(conn, 61)
    assert await ids(conn, worker) == jobs[3:4]
    await pass_time(conn, 125)
    assert await ids(conn, worker) == jobs[4:6]
    waiting = await load(conn, jobs[6])
    assert (waiting["status"], waiting["attempt_count"]) == ("queued", 0)


async def test_a_claim_says_when_the_next_token_is_there(conn):
    await given_limit(conn, None, None, rate="60/hour", burst=1)
    await given_keyed(conn, *range(3))
    worker = await given_worker(conn, "keyed")
    first = await claim_for_slots(conn, worker, slots=5)
    assert len(first.claimed) == 1
    second = await claim_for_slots(conn, worker, slots=5)
    assert second.claimed == []
    assert second.next_token is not None
    assert 50 < second.next_token <= 60


async def test_what_was_released_while_no_worker_took_it_does_not_add_to_the_burst(conn):
    await given_limit(conn, None, None, rate="60/minute", burst=3)
    await given_keyed(conn, *range(20))
    # Claims of another type release, and nobody starts: for an hour.
    stranger, worker = await given_worker(conn, "other", "another"), await given_worker(conn, "keyed")
    for _ in range(4):
        assert await claim(conn, stranger, limit=5) == []
        await pass_time(conn, 900)
    assert await conn.fetchval("select count(*) from atlas.jobs where held_by is null") == 3
    # Three at once, then no more than what a second brings.
    assert len(await ids(conn, worker)) == 3
    assert len(await ids(conn, worker)) <= 1


async def test_a_retry_takes_another_token_and_waits_behind_its_delay(conn):
    await given_limit(conn, None, None, rate="60/hour", burst=2)
    first, _, third = await given_keyed(conn, *range(3), max_retries=5)
    worker = await given_worker(conn, "keyed")
    jobs = await claim(conn, worker, limit=5)
    await finish_and_claim(conn, worker, [decide(jobs[0], worker.id, ValueError(), ATLAS)], slots=5)
    await make_due(conn, first)
    assert await ids(conn, worker) == []

    await pass_time(conn, 61)
    assert await ids(conn, worker) == [first]
    await pass_time(conn, 61)
    assert await ids(conn, worker) == [third]


async def test_a_retry_under_a_rate_and_one_at_a_time_keeps_its_slot(conn):
    await given_limit(conn, 1, KEY, rate="3600/hour", burst=1)
    first, second = await given_keyed(conn, "a", "a", max_retries=5)
    worker = await given_worker(conn, "keyed")
    [job] = await claim(conn, worker, limit=5)
    await finish_and_claim(conn, worker, [decide(job, worker.id, ValueError(), ATLAS)], slots=5)
    await pass_time(conn, 10)
    assert await ids(conn, worker) == []
    await make_due(conn, first)
    assert await ids(conn, worker) == [first]
    assert (await load(conn, second))["held_by"] is not None


async def test_each_key_has_a_rate_of_its_own(conn):
    await given_limit(conn, None, KEY, rate="60/hour", burst=1)
    one, _, other = await given_keyed(conn, "a", "a", "b")
    assert set(await ids(conn, await given_worker(conn, "keyed"))) == {one, other}


async def rate_of_system(conn: Any, limits: dict[str, Any]) -> None:
    await edit_tenant(conn, await find_tenant(conn, SYSTEM_TENANT), {"limits": limits}, actor=DANA)


async def test_a_tenant_s_rate_counts_all_its_jobs_behind_the_limits_of_their_types(conn):
    await rate_of_system(conn, {"rate": "60/hour", "burst": 2})
    await given_limit(conn, 1)
    first, blocked = await given_keyed(conn, "a", "a")
    plain = (await enqueue(conn, NewJob("plain"), actor=DANA)).id
    late = (await enqueue(conn, NewJob("plain"), actor=DANA)).id
    worker = await given_worker(conn, "keyed", "plain")
    jobs = await claim(conn, worker, limit=5)
    assert {job.id for job in jobs} == {first, plain}

    await finish_and_claim(conn, worker, [success(worker, job) for job in jobs], slots=5)
    await pass_time(conn, 61)
    assert await ids(conn, worker) in ([blocked], [late])
    await rate_of_system(conn, {})
    assert len(await ids(conn, worker)) == 1


async def test_a_wrong_rate_of_a_tenant_is_refused(conn):
    with pytest.raises(InvalidInput) as refused:
        await rate_of_system(conn, {"rate": "fast"})
    assert [error.field for error in refused.value.errors] == ["limits.rate"]


async def test_explain_says_when_the_turn_of_a_job_comes(conn):
    await given_limit(conn, None, None, rate="60/hour", burst=1)
    jobs = await given_keyed(conn, *range(3))
    worker = await given_worker(conn, "keyed")
    await ids(conn, worker)
    await ids(conn, worker)

    found = await explain(conn, jobs[2])
    assert found.sentence.startswith("Throttled by the rate 60/hour of keyed jobs; it can start at ")
    assert (found.reason, found.numbers) == ("rate", {"ahead": 1})


async def test_a_tenant_sees_the_buckets_of_its_own_limits_and_writes_none(conn, owner):
    await given_limit(conn, None, KEY, rate="60/hour", burst=1)
    await given_keyed(conn, "a", "a")
    await ids(conn, await given_worker(conn, "keyed"))
    for tenant, seen in ((SYSTEM_TENANT, 1), (UUID(int=1), 0)):
        async with owner.transaction():
            await owner.execute("set local role atlas_tenant")
            await owner.execute("select set_config('atlas.tenant', $1, true)", str(tenant))
            assert len(await owner.fetch("select * from atlas.job_limits")) == seen
    async with owner.transaction():
        await owner.execute("set local role atlas_tenant")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with owner.transaction():
                await owner.execute("update atlas.job_limits set tokens = 1000")
