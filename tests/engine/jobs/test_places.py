"""Places: a claim that goes on where the last one ended finds what it would find from the head, without walking there."""

from datetime import timedelta
from itertools import product
from typing import Any

import orjson
import pytest

from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import Claimant, ReadyPlace, TurnResult, claim_for_slots, find_places
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.verdicts import PermanentError, decide
from tests.engine.jobs.given import DANA, given_job, given_worker, make_due, success
from tests.engine.jobs.test_shares import given_tenant


async def claim_from(
    conn: Any, worker: Claimant, places: list[ReadyPlace], *, due_since: float | None = None, slots: int = 10
) -> TurnResult:
    rows = [[(p[0], str(p[1]), p[2], p[3]) for p in places if p.is_limited is limited] for limited in (False, True)]
    resume = orjson.dumps({"places": rows[0], "careful": rows[1], "due_since": due_since})
    return await claim_for_slots(conn, worker, slots=slots, resume=resume.decode())


async def test_a_claim_goes_on_from_its_places(conn):
    ids = [await given_job(conn, "mine", priority=n % 2) for n in range(6)]
    worker = await given_worker(conn, "mine")
    places = (await find_places(conn, ["mine"])).ready
    assert [place.priority for place in places] == [1, 0]

    turn = await claim_from(conn, worker, places)
    assert {job.id for job in turn.claimed} == set(ids)
    assert {(place.job_type, place.priority) for place in turn.places} == {("mine", 1), ("mine", 0)}

    later = await given_job(conn, "mine")
    turn = await claim_from(conn, worker, turn.places)
    assert [job.id for job in turn.claimed] == [later]


async def test_a_retry_that_falls_due_is_found_by_the_claim_that_makes_it_ready(conn):
    waits = await given_job(conn, "mine", delay=timedelta(hours=1))
    new = await given_job(conn, "mine")
    worker = await given_worker(conn, "mine")
    turn = await claim_from(conn, worker, (await find_places(conn, ["mine"])).ready)
    assert [job.id for job in turn.claimed] == [new]
    assert turn.due_until is not None

    await conn.execute("update atlas.jobs set created_at = created_at - interval '1 hour' where id = $1", waits)
    await make_due(conn, waits)
    turn = await claim_from(conn, worker, turn.places, due_since=turn.due_until - 3600)
    assert [job.id for job in turn.claimed] == [waits]


async def test_a_place_stays_before_a_job_that_another_claim_has_locked_and_does_not_take(conn, pool):
    locked, *others = [await given_job(conn, "mine") for _ in range(3)]
    worker = await given_worker(conn, "mine")
    places = (await find_places(conn, ["mine"])).ready
    async with pool.acquire() as other:
        transaction = other.transaction()
        await transaction.start()
        created_at = await other.fetchval("select created_at from atlas.jobs where id = $1 for update", locked)
        turn = await claim_from(conn, worker, places)
        await transaction.rollback()
    assert {job.id for job in turn.claimed} == set(others)
    assert turn.places[-1] == ReadyPlace("mine", SYSTEM_TENANT, 0, created_at.timestamp(), False)

    turn = await claim_from(conn, worker, turn.places[-1:])
    assert [job.id for job in turn.claimed] == [locked]


@pytest.mark.parametrize("from_head", [True, False])
async def test_free_slots_take_the_jobs_of_all_tenants_whatever_each_has_used(conn, from_head):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(30)]
    await conn.executemany(
        "insert into atlas.tenant_shares (tenant_id, used, mean_seconds) values ($1, $2, 0.00001)",
        [(tenant, n / 1000) for n, tenant in enumerate(tenants)],
    )
    await enqueue_many(conn, [NewJob("mine", {}, tenant) for tenant in tenants for _ in range(2)], actor=DANA)
    worker, places = await given_worker(conn, "mine"), (await find_places(conn, ["mine"])).ready

    turn = await (claim_for_slots(conn, worker, slots=70) if from_head else claim_from(conn, worker, places, slots=70))
    assert len(turn.claimed) == 60


async def test_places_without_jobs_leave_what_is_asked_for_to_others(conn):
    idle, busy = [await given_tenant(conn, f"idle{n}") for n in range(20)], await given_tenant(conn, "busy")
    await conn.execute("insert into atlas.tenant_shares (tenant_id, used) values ($1, 1)", busy)
    await enqueue_many(conn, [NewJob("mine", {}, busy) for _ in range(30)], actor=DANA)
    worker, [place] = await given_worker(conn, "mine"), (await find_places(conn, ["mine"])).ready

    turn = await claim_from(conn, worker, [place, *(place._replace(tenant_id=tenant) for tenant in idle)])
    assert len(turn.claimed) == 10


async def test_a_place_does_not_hide_what_a_look_finds(conn):
    tenants = [await given_tenant(conn, "one"), await given_tenant(conn, "two")]
    await enqueue_many(conn, [NewJob("mine", {}, tenant) for tenant in tenants for _ in range(3)], actor=DANA)
    worker = await given_worker(conn, "mine")
    turn = await claim_from(conn, worker, (await find_places(conn, ["mine"])).ready)
    assert turn.contested
    assert len(turn.claimed) == 6

    late = await given_job(conn, "mine", tenant_id=tenants[0])
    await conn.execute("update atlas.jobs set created_at = created_at - interval '1 hour' where id = $1", late)
    assert (await claim_from(conn, worker, turn.places)).claimed == []
    [place] = (await find_places(conn, ["mine"])).ready
    assert [job.id for job in (await claim_from(conn, worker, [place, *turn.places])).claimed] == [late]


async def test_all_jobs_of_a_tenant_and_type_are_a_place_too(conn):
    ids = [await given_job(conn, "mine", priority=n) for n in range(3)]
    worker = await given_worker(conn, "mine")
    resume = orjson.dumps({"places": [("mine", str(SYSTEM_TENANT), None, None)]}).decode()
    turn = await claim_for_slots(conn, worker, slots=2, resume=resume)
    assert {job.id for job in turn.claimed} == set(ids[1:])


async def test_a_claim_finds_what_returns_with_an_older_place_than_its_own(conn):
    """A job that its limit releases, and one that an operator retries."""
    await conn.execute(
        """insert into atlas.job_types (key, concurrency, concurrency_key) values ('mine', 1, '{{ input.key }}')"""
    )
    first, throttled = [await given_job(conn, "mine", input={"key": "a"}) for _ in range(2)]
    failed = await given_job(conn, "mine", input={"key": "b"})
    worker = await given_worker(conn, "mine")
    turn = await claim_from(conn, worker, (await find_places(conn, ["mine"])).ready)
    assert {job.id for job in turn.claimed} == {first, failed}
    assert turn.due_until is not None

    await conn.execute("update atlas.jobs set created_at = created_at - interval '1 hour' where status = 'queued'")
    ends = [
        success(worker, job) if job.id == first else decide(job, worker.id, PermanentError("no"), ATLAS)
        for job in turn.claimed
    ]
    await finish(conn, worker, ends)
    await change_many(conn, "retry", [failed], actor=DANA, tenant_id=None)
    now = turn.due_until
    turn = await claim_from(conn, worker, [ReadyPlace("mine", SYSTEM_TENANT, 0, now + 60)], due_since=now)
    assert {job.id for job in turn.claimed} == {throttled, failed}
    assert turn.places == []


async def test_what_is_counted_against_a_limit_has_places_of_its_own(conn):
    await conn.execute("insert into atlas.job_types (key, concurrency) values ('mine', 1)")
    ids = [await given_job(conn, "mine") for _ in range(3)]
    worker = await given_worker(conn, "mine")
    places = (await find_places(conn, ["mine"])).ready
    aside = await claim_from(conn, worker, places)
    assert (aside.claimed, aside.again) == ([], True)
    [limited] = aside.places
    assert limited.is_limited
    assert limited in [place._replace(since=limited.since) for place in (await find_places(conn, ["mine"])).ready]

    later = [ReadyPlace("mine", SYSTEM_TENANT, 0, limited.since + 60)]
    for job_id in ids:
        turn = await claim_from(conn, worker, [*later, limited], due_since=limited.since + 60)
        [job] = turn.claimed
        assert job.id == job_id
        # Another one is left, but for the last time.
        assert [place.is_limited for place in turn.places] == [True] * (job_id != ids[-1])
        limited = turn.places[0] if turn.places else limited
        await finish(conn, worker, [success(worker, job)])


async def test_a_claim_says_when_it_walks_over_many_claimed_jobs(conn, owner):
    worker = await given_worker(conn, "mine")
    async with owner.transaction(isolation="repeatable_read"):
        await owner.fetch("select count(*) from atlas.jobs")
        await enqueue_many(conn, [NewJob("mine", {}) for _ in range(3000)], actor=DANA)
        first = await claim_for_slots(conn, worker, slots=2999, resume="{}")
        assert (len(first.claimed), first.is_slow) == (2999, False)
        # The entries of the claimed jobs stand before the last one, and nothing can remove them.
        last = await claim_for_slots(conn, worker, slots=1, resume="{}")
        assert (len(last.claimed), last.is_slow) == (1, True)

        assert not (await find_places(conn, ["mine"])).are_found_fast
        late = await given_job(conn, "mine")
        [place] = (await find_places(conn, ["mine"])).ready
        turn = await claim_from(conn, worker, [place])
        assert ([job.id for job in turn.claimed], turn.is_slow) == ([late], False)
    await owner.execute("vacuum atlas.jobs")
    assert (await find_places(conn, ["mine"])).are_found_fast


async def test_a_claim_names_the_places_of_due_jobs_that_it_left(conn):
    waiting = [await given_job(conn, f"type.{n}", delay=timedelta(hours=1)) for n in range(12)]
    worker = await given_worker(conn, *(f"type.{n}" for n in range(12)))
    for job_id in waiting:
        await make_due(conn, job_id)

    first = await claim_from(conn, worker, [])
    second = await claim_from(conn, worker, first.places, due_since=first.due_until)
    assert {job.id for turn in (first, second) for job in turn.claimed} == set(waiting)
    assert len(first.claimed) == 10


async def test_places_found_in_parts_are_those_found_at_once(conn):
    acme = await given_tenant(conn, "acme")
    groups = product(("b", "mine", "z"), (SYSTEM_TENANT, acme), (0, 1, 7))
    jobs = [NewJob(job_type, {}, tenant, priority=priority) for job_type, tenant, priority in groups]
    await enqueue_many(conn, jobs, actor=DANA)
    for types in (["mine", "b"], None):
        whole = await find_places(conn, types)
        found, part = [], None
        while part is None or part.are_cut:
            part = await find_places(conn, types, after=found[-1] if found else None, within=0)
            found += part.ready
            assert part.are_cut <= (len(part.ready) == 1)
        assert found == whole.ready
        assert len(found) == (12 if types else 18)
