"""Limits by key: at most so many jobs of a key at a time, in order, whatever becomes of those before."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from atlas.engine.admission import admit
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import Claimant, ClaimedJob, claim
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import finish_and_claim
from atlas.engine.jobs.handlers.types import job
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.new_jobs.enqueue_call import enqueue as enqueue_by_call
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.errors import InvalidInput
from tests.engine.jobs.given import given_job, given_worker, load, lose_lease, make_due, success
from tests.support import DANA

KEY = "{{ input.customer }}"


async def given_limit(conn: Any, concurrency: int | None = 1, key: str | None = KEY, **terms: Any) -> None:
    await conn.execute(
        """insert into atlas.job_types (key, concurrency, concurrency_key, rate, burst) values ('keyed', $1, $2, $3, $4)
        on conflict (key) do update
        set concurrency = excluded.concurrency, concurrency_key = excluded.concurrency_key, rate = excluded.rate""",
        concurrency,
        key,
        terms.get("rate"),
        terms.get("burst"),
    )


async def given_keyed(conn: Any, *customers: Any, **options: Any) -> list[UUID]:
    jobs = [NewJob("keyed", {"customer": customer, "n": n}, **options) for n, customer in enumerate(customers)]
    return [one.id for one in await enqueue_many(conn, jobs, actor=DANA)]


async def ids(conn: Any, worker: Claimant, limit: int = 50) -> list[UUID]:
    return [job.id for job in await claim(conn, worker, limit=limit)]


async def finish_one(conn: Any, worker: Claimant, job: ClaimedJob) -> list[UUID]:
    """What the same call claims next."""
    return [next.id for next in (await finish_and_claim(conn, worker, [success(worker, job)], slots=50)).claimed]


async def test_one_at_a_time_keeps_the_order_of_a_key_and_the_turn_that_ends_one_starts_the_next(conn):
    await given_limit(conn)
    first, second, third, other = await given_keyed(conn, "a", "a", "a", "b")
    urgent = (await given_keyed(conn, "a", priority=5))[0]
    worker = await given_worker(conn, "keyed")

    jobs = {job.id: job for job in await claim(conn, worker, limit=50)}
    assert set(jobs) == {urgent, other}
    assert await ids(conn, worker) == []
    assert await finish_one(conn, worker, jobs[other]) == []
    found = (await finish_and_claim(conn, worker, [success(worker, jobs[urgent])], slots=50)).claimed
    assert [job.id for job in found] == [first]
    found = (await finish_and_claim(conn, worker, [success(worker, found[0])], slots=50)).claimed
    assert [job.id for job in found] == [second]
    assert await finish_one(conn, worker, found[0]) == [third]


async def test_a_retry_keeps_its_slot_so_that_none_passes_it(conn):
    await given_limit(conn)
    first, second = await given_keyed(conn, "a", "a", max_retries=3)
    worker = await given_worker(conn, "keyed")
    [job] = await claim(conn, worker, limit=50)

    turn = await finish_and_claim(conn, worker, [decide(job, worker.id, ValueError(), ATLAS)], slots=50)
    assert turn.claimed == []
    await make_due(conn, first)
    [job] = await claim(conn, worker, limit=50)
    assert job.id == first
    assert await finish_one(conn, worker, job) == [second]


@pytest.mark.parametrize("end", ["fails", "canceled while ready", "deleted while ready", "lost with its worker"])
async def test_whatever_ends_a_job_frees_its_slot(conn, end):
    await given_limit(conn)
    first, second = await given_keyed(conn, "a", "a")
    worker = await given_worker(conn, "keyed")
    if "ready" in end:
        # Released by a claim of another's, and not started.
        await claim(conn, await given_worker(conn, "other", "another"), limit=1)
        assert (await load(conn, first))["has_slot"]
        await change_many(
            conn, "cancel" if end.startswith("canceled") else "delete", [first], actor=DANA, tenant_id=None
        )
        assert await ids(conn, worker) == [second]
        return
    [job] = await claim(conn, worker, limit=50)
    if end == "fails":
        turn = await finish_and_claim(conn, worker, [decide(job, worker.id, PermanentError("no"), ATLAS)], slots=50)
        assert [one.id for one in turn.claimed] == [second]
        return
    await change_many(conn, "cancel", [first], actor=DANA, tenant_id=None)
    await lose_lease(conn, worker)
    await reap(conn)
    assert (await load(conn, first))["status"] == "canceled"
    assert await ids(conn, await given_worker(conn, "keyed")) == [second]


async def test_a_lost_job_is_the_next_of_its_key_again(conn):
    await given_limit(conn)
    first, _ = await given_keyed(conn, "a", "a")
    dead = await given_worker(conn, "keyed")
    assert await ids(conn, dead) == [first]
    await lose_lease(conn, dead)
    await reap(conn)

    worker = await given_worker(conn, "keyed")
    assert await ids(conn, worker) == []
    await make_due(conn, first)
    assert await ids(conn, worker) == [first]


async def test_a_retried_dead_letter_waits_for_a_slot_anew(conn):
    await given_limit(conn)
    first, second = await given_keyed(conn, "a", "a", max_retries=0)
    worker = await given_worker(conn, "keyed")
    [job] = await claim(conn, worker, limit=50)
    [running] = (await finish_and_claim(conn, worker, [decide(job, worker.id, ValueError(), ATLAS)], slots=50)).claimed
    assert running.id == second

    await change_many(conn, "retry", [first], actor=DANA, tenant_id=None)
    assert await ids(conn, worker) == []
    assert await finish_one(conn, worker, running) == [first]


async def test_a_delayed_job_takes_no_slot_before_it_is_due(conn):
    await given_limit(conn)
    [later] = await given_keyed(conn, "a", delay=timedelta(hours=1))
    [now] = await given_keyed(conn, "a")
    worker = await given_worker(conn, "keyed")
    [job] = await claim(conn, worker, limit=50)
    assert job.id == now

    await make_due(conn, later)
    assert await ids(conn, worker) == []
    assert await finish_one(conn, worker, job) == [later]


async def test_every_way_in_holds_the_job(conn):
    await given_limit(conn)
    single = (await enqueue(conn, NewJob("keyed", {"customer": 7}), actor=DANA)).id
    called = (await enqueue_by_call(conn, "keyed", {"customer": 7})).id
    admitted = await admit(conn, NewJob("keyed", {"customer": 7}))
    api = (await enqueue(conn, admitted, actor=DANA)).id
    deduplicated = (await enqueue(conn, NewJob("keyed", {"customer": 7}, dedupe_key="k"), actor=DANA)).id

    held = await conn.fetch("select id, limit_key from atlas.jobs where held_by is not null")
    assert {row["id"] for row in held} == {single, called, api, deduplicated}
    assert {row["limit_key"] for row in held} == {"7"}
    assert len(await ids(conn, await given_worker(conn, "keyed"))) == 1


async def test_a_held_job_that_is_canceled_was_never_due_later(conn):
    await given_limit(conn)
    first, second = await given_keyed(conn, "a", "a")
    assert await ids(conn, await given_worker(conn, "keyed")) == [first]
    await change_many(conn, "cancel", [second], actor=DANA, tenant_id=None)
    assert ((await load(conn, second))["status"], (await load(conn, second))["due_at"]) == ("canceled", None)


async def test_a_key_that_cannot_be_filled_in_is_refused_with_the_field(conn):
    await given_limit(conn, key="{{ input.customer.id }} in {{input.region}}")
    wrong = [{}, {"customer": {"id": [1]}, "region": "eu"}, {"customer": {"id": 1}}]
    for input, field in zip(wrong, ["input.customer.id", "input.customer.id", "input.region"], strict=True):
        with pytest.raises(InvalidInput, match="concurrency key of keyed") as refused:
            await enqueue(conn, NewJob("keyed", input), actor=DANA)
        assert refused.value.errors[0].field == field
    job = await given_job(conn, "keyed", input={"customer": {"id": "{{ input.region }}"}, "region": "eu"})
    assert (await load(conn, job))["limit_key"] == "{{ input.region }} in eu"


async def test_a_changed_limit_counts_for_held_jobs_and_a_removed_one_releases_them(conn):
    await given_limit(conn)
    await given_keyed(conn, *("a" * 6))
    worker = await given_worker(conn, "keyed")
    assert len(await ids(conn, worker)) == 1

    await given_limit(conn, concurrency=3)
    assert len(await ids(conn, worker)) == 2
    await given_limit(conn, concurrency=None, key=None)
    assert len(await ids(conn, worker)) == 3


async def test_racing_workers_never_run_more_than_the_limit_of_a_key(pool):
    most: Counter[str] = Counter()
    started: Counter[str] = Counter()
    async with pool.acquire() as conn:
        await given_limit(conn, concurrency=2)
        await given_keyed(conn, *(f"c{n % 5}" for n in range(120)))
        workers = [await given_worker(conn, "keyed") for _ in range(3)]

    async def work(worker: Claimant) -> None:
        done: list[ClaimedJob] = []
        async with pool.acquire() as conn:
            while started.total() < 120 or done:
                turn = await finish_and_claim(conn, worker, [success(worker, job) for job in done], slots=4)
                done = turn.claimed
                started.update(orjson.loads(job.input)["customer"] for job in done)
                rows = await conn.fetch(
                    "select limit_key, count(*) from atlas.jobs where status = 'running' group by limit_key"
                )
                for key, running in rows:
                    most[key] = max(most[key], running)

    async with asyncio.timeout(30):
        await asyncio.gather(*map(work, workers))
    assert max(most.values()) <= 2
    assert started == {f"c{n}": 24 for n in range(5)}


async def test_explain_names_the_key_and_who_is_ahead(conn):
    await given_limit(conn, concurrency=2)
    jobs = await given_keyed(conn, *([42] * 4))
    assert (await explain(conn, jobs[3])).reason == "no_worker"
    worker = await given_worker(conn, "keyed")
    assert (await explain(conn, jobs[3])).sentence == "Its limit has room; the next claim takes it."
    await ids(conn, worker)

    found = await explain(conn, jobs[3])
    assert found.sentence == "2 of at most 2 keyed jobs of 42 run; 1 of them is ahead of it."
    assert (found.reason, found.numbers) == ("limit", {"running": 2, "limit": 2, "ahead": 1})


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"concurrency_key": KEY}, "concurrency_key"),
        ({"concurrency": 1, "concurrency_key": "{{ input.customer | upper }}"}, "concurrency_key"),
        ({"concurrency": 1, "concurrency_key": "{{ customer }}"}, "concurrency_key"),
        ({"rate": "100 per minute"}, "rate"),
        ({"rate": "0/second"}, "rate"),
        ({"burst": 3}, "burst"),
        ({"rate": "1/day", "burst": 0}, "burst"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_where_it_is_declared(terms, field):
    with pytest.raises(InvalidInput) as refused:
        job("keyed.wrong", **terms)(lambda input: None)
    assert [error.field for error in refused.value.errors] == [field]
