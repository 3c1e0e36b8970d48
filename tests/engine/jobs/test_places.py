"""Places: a claim that goes on where the last one ended finds what it would find from the head, without walking there."""

from datetime import timedelta
from typing import Any

import orjson

from atlas.engine.jobs.claim import Claimant, ReadyPlace, TurnResult, claim_for_slots, ready_places
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_job import SYSTEM_TENANT, NewJob
from tests.engine.jobs.given import DANA, given_job, given_worker, make_due
from tests.engine.jobs.test_shares import given_tenant


async def claim_from(
    conn: Any, worker: Claimant, places: list[ReadyPlace], *, due_since: float | None = None
) -> TurnResult:
    resume = orjson.dumps({"places": [(p[0], str(p[1]), p[2], p[3]) for p in places], "due_since": due_since})
    return await claim_for_slots(conn, worker, slots=10, resume=resume.decode())


async def test_a_claim_goes_on_from_its_places(conn):
    ids = [await given_job(conn, "mine", priority=n % 2) for n in range(6)]
    worker = await given_worker(conn, "mine")
    places = await ready_places(conn, ["mine"])
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
    turn = await claim_from(conn, worker, await ready_places(conn, ["mine"]))
    assert [job.id for job in turn.claimed] == [new]
    assert turn.due_until is not None

    await conn.execute("update atlas.jobs set created_at = created_at - interval '1 hour' where id = $1", waits)
    await make_due(conn, waits)
    turn = await claim_from(conn, worker, turn.places, due_since=turn.due_until - 3600)
    assert [job.id for job in turn.claimed] == [waits]


async def test_a_place_does_not_hide_what_a_look_finds(conn):
    tenants = [await given_tenant(conn, "one"), await given_tenant(conn, "two")]
    await enqueue_many(conn, [NewJob("mine", {}, tenant) for tenant in tenants for _ in range(3)], actor=DANA)
    worker = await given_worker(conn, "mine")
    turn = await claim_from(conn, worker, await ready_places(conn, ["mine"]))
    assert turn.contested
    assert len(turn.claimed) == 6

    late = await given_job(conn, "mine", tenant_id=tenants[0])
    await conn.execute("update atlas.jobs set created_at = created_at - interval '1 hour' where id = $1", late)
    assert (await claim_from(conn, worker, turn.places)).claimed == []
    [place] = await ready_places(conn, ["mine"])
    assert [job.id for job in (await claim_from(conn, worker, [place, *turn.places])).claimed] == [late]


async def test_all_jobs_of_a_tenant_and_type_are_a_place_too(conn):
    ids = [await given_job(conn, "mine", priority=n) for n in range(3)]
    worker = await given_worker(conn, "mine")
    resume = orjson.dumps({"places": [("mine", str(SYSTEM_TENANT), None, None)]}).decode()
    turn = await claim_for_slots(conn, worker, slots=2, resume=resume)
    assert {job.id for job in turn.claimed} == set(ids[1:])


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

        late = await given_job(conn, "mine")
        [place] = await ready_places(conn, ["mine"])
        turn = await claim_from(conn, worker, [place])
        assert ([job.id for job in turn.claimed], turn.is_slow) == ([late], False)


async def test_a_claim_names_the_places_of_due_jobs_that_it_left(conn):
    waiting = [await given_job(conn, f"type.{n}", delay=timedelta(hours=1)) for n in range(12)]
    worker = await given_worker(conn, *(f"type.{n}" for n in range(12)))
    for job_id in waiting:
        await make_due(conn, job_id)

    first = await claim_from(conn, worker, [])
    second = await claim_from(conn, worker, first.places, due_since=first.due_until)
    assert {job.id for turn in (first, second) for job in turn.claimed} == set(waiting)
    assert len(first.claimed) == 10
