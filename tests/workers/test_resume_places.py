"""While a snapshot is held, claims go on from their last place, and what enters the queue with an older one still runs."""

import asyncio
from types import SimpleNamespace

import pytest

from atlas.engine.jobs.claim import Claimant, ClaimedJob, ClaimSnapshot, ReadyPlace, TurnResult
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.ids import new_id
from atlas.workers.claims import resume_places
from atlas.workers.claims.fast_lane import read_new_jobs
from atlas.workers.claims.resume_places import CLAIM_PLACES, LATE_COMMIT_SECONDS, MAX_LATE_COMMIT_SECONDS, ResumePlaces
from tests.support import DANA, given_tenant, until

JOB = ClaimedJob(new_id(), SYSTEM_TENANT, "mine", "{}", 1, 0, None, 0, None, None, None, None)


OTHER = ClaimedJob(new_id(), SYSTEM_TENANT, "other", "{}", 1, 0, None, 0, None, None, None, None)


@pytest.fixture
async def places():
    places = ResumePlaces(None, None, looked=lambda: None)
    places.are_used = True
    return places


async def test_an_enqueue_of_several_tenants_and_priorities_tells_a_worker_of_each_place(conn, owner):
    acme = await given_tenant(conn)
    heard: list[str] = []
    await owner.add_listener("atlas_jobs", lambda *heard_of: heard.append(heard_of[3]))
    jobs = [NewJob("mine", {}, tenant, priority=priority) for tenant in (SYSTEM_TENANT, acme) for priority in (0, 7)]
    await enqueue_many(conn, [*jobs, NewJob("other")], actor=DANA)
    await enqueue_many(conn, [NewJob(f"type.{n}") for n in range(65)], actor=DANA)
    await until(lambda: len(heard) == 2)

    assert read_new_jobs(heard[1]) == []
    places = ResumePlaces(None, None, looked=lambda: None)
    places.are_used = True
    places.hint(heard[0])
    named = {("mine", tenant, priority) for tenant in (SYSTEM_TENANT, acme) for priority in (0, 7)}
    assert set(places.request().since) == named | {("other", SYSTEM_TENANT, 0)}


def place(since: float, priority: int = 0) -> ReadyPlace:
    return ReadyPlace("mine", SYSTEM_TENANT, priority, since)


async def test_places_are_used_after_several_slow_claims_and_not_for_one_now_and_then():
    places = ResumePlaces(None, None, looked=lambda: None)

    def claims(*are_slow: bool) -> bool:
        for is_slow in are_slow:
            places.returned(places.request(), TurnResult(claimed=[JOB], is_slow=is_slow), asked=1)
        return places._was_slow.is_set()

    # Both connections meet the entries of a claim that has just committed.
    assert not any(claims(True, True, *[False] * 8) for _ in range(20))
    assert not claims(True, True, False, True)
    assert claims(True, True)


def test_a_claim_that_was_sent_before_an_older_job_was_found_does_not_hide_it(places):
    places._since["mine", SYSTEM_TENANT, 0] = 100.0
    sent = places.request()
    places._since["mine", SYSTEM_TENANT, 0] = 10.0

    places.returned(sent, TurnResult(claimed=[JOB], places=[place(200.0)]), asked=1)
    assert places.request().since == {("mine", SYSTEM_TENANT, 0): 10.0}
    places.returned(places.request(), TurnResult(claimed=[JOB], places=[place(200.0)]), asked=1)
    assert places.request().since == {("mine", SYSTEM_TENANT, 0): 200.0 - LATE_COMMIT_SECONDS}


def test_a_priority_that_comes_later_gets_a_place_when_its_job_is_enqueued(places):
    places._since["mine", SYSTEM_TENANT, 0] = 100.0
    places.hint(f"{SYSTEM_TENANT}/7 mine")
    assert places.request().since["mine", SYSTEM_TENANT, 7] == 0.0


def test_a_job_that_comes_back_is_looked_for_from_the_head_until_all_were_seen(places):
    places._since["mine", SYSTEM_TENANT, 3] = 100.0
    places.comes_back(JOB)
    sent = places.request()
    assert sent.since == {("mine", SYSTEM_TENANT, None): None}

    places.returned(sent, TurnResult(claimed=[JOB], places=[place(50.0, 3)], due_until=300.0), asked=1)
    assert places.request().since == sent.since
    places.returned(sent, TurnResult(claimed=[JOB], places=[place(60.0, 3)], due_until=300.0), asked=2)
    assert ("mine", SYSTEM_TENANT, None) not in places.request().since


def test_an_idle_worker_looks_at_the_place_of_a_new_job_alone(places):
    keys = [("mine", new_id(), 0) for _ in range(50)]
    places._since.update(dict.fromkeys(keys, 100.0))
    sent = places.request()
    places.hint(f"{keys[0][1]}/0 mine")
    places.returned(sent, TurnResult(due_until=200.0), asked=1)
    assert set(places.request().since) == {keys[0]}

    # A claim that got all it asked for may have left some; one that was sent before a hint does not answer it.
    sent = places.request()
    places.returned(sent, TurnResult(claimed=[JOB]), asked=1)
    assert set(places.request().since) == {keys[0]}
    places.hint(f"{keys[1][1]}/0 mine")
    places.returned(sent, TurnResult(due_until=300.0), asked=1)
    assert set(places.request().since) == {keys[1]}

    places.hint("\n" + "\n".join(f"{tenant}/{priority} mine" for _, tenant, priority in keys[2:5]))
    assert set(places.request().since) == set(keys[1:5])
    places.hint()
    assert set(places.request().since) == set(keys)


def test_claims_look_back_for_as_long_as_a_transaction_is_open(places):
    def due_since(at: float, oldest_open: int, own: int) -> float | None:
        turn = TurnResult(due_until=at, snapshot=ClaimSnapshot(at, oldest_open, own))
        places.returned(places.request(), turn, asked=1)
        return places._due_since

    due_since(100.0, 10, 10)
    # The transaction 11 began to write before the second claim, and ends after the third.
    assert due_since(101.0, 11, 12) == 100.0
    assert due_since(102.0, 11, 13) == 100.0
    assert due_since(102.4, 14, 14) == 102.4 - LATE_COMMIT_SECONDS
    assert due_since(200.0, 14, 15) == 200.0 - MAX_LATE_COMMIT_SECONDS


async def test_a_long_look_goes_on_in_parts_and_keeps_what_is_heard_meanwhile(pool, conn, places, monkeypatch):
    monkeypatch.setattr(resume_places, "PART_SECONDS", 0)
    monkeypatch.setattr(resume_places, "MAX_PLACES", 3)
    await enqueue_many(conn, [NewJob("mine", {}, priority=priority) for priority in range(5)], actor=DANA)
    places._pool, places._lease = pool, SimpleNamespace(claimant=Claimant("a worker", ["mine"]))
    known = []
    places._looked = lambda: known.append(len(places.request().since)) or places.comes_back(OTHER)
    places._since["gone", SYSTEM_TENANT, 0] = 5.0
    are_fast, _ = await places._look()
    assert are_fast
    assert known == [2, 4, 5, 6, 7, 7]
    assert set(places.request().since) == {
        *(("mine", SYSTEM_TENANT, priority) for priority in range(5)),
        ("other", SYSTEM_TENANT, None),
    }


def test_many_places_are_looked_at_by_several_claims(places):
    keys = [("mine", SYSTEM_TENANT, n) for n in range(2 * CLAIM_PLACES + 1)]
    places._since.update(dict.fromkeys(keys, 100.0))
    asked = [places.request() for _ in range(3)]
    assert {key for sent in asked for key in sent.since} == set(keys)

    nothing = [TurnResult() for _ in range(3)]
    for sent, turn in zip(asked, nothing, strict=True):
        places.returned(sent, turn, asked=1)
    assert [turn.again for turn in nothing] == [True, True, False]


@pytest.mark.long
async def test_what_commits_late_runs_beside_a_held_snapshot(pool, owner, given, serving):
    async with owner.transaction(isolation="repeatable_read"):
        await owner.fetch("select count(*) from atlas.jobs")
        await given("test.noop", *({} for _ in range(4000)))
        async with serving("test.noop") as worker:
            await until(lambda: worker.finished == 4000)
            async with pool.acquire() as conn, conn.transaction():
                await enqueue(conn, NewJob("test.noop", {}), actor=DANA)
                for n in range(20):
                    await given("test.noop", {"n": n})
                    await asyncio.sleep(3 * LATE_COMMIT_SECONDS / 20)
            await until(lambda: worker.finished == 4021)
            assert worker._claim_loop._places.are_used
