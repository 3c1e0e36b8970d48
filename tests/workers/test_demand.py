"""How many jobs a worker asks for, and when a drain ends."""

from uuid import uuid4

import pytest

from atlas.engine.jobs.claim import ClaimedJob, TurnResult
from atlas.workers.claims.demand import NO_JOBS, Demand, Request
from atlas.workers.claims.drain import Drain
from atlas.workers.claims.held_jobs import HeldJobs


def a_job(*, alone: bool = False) -> ClaimedJob:
    return ClaimedJob(uuid4(), uuid4(), "test.noop", "{}", 1, 0, 3, 0, None, None, None, None, alone)


@pytest.fixture
def held():
    return HeldJobs()


@pytest.fixture
def demand(held):
    return Demand(slots=4, batch=100, held=held)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr("atlas.workers.claims.demand.time", clock)
    monkeypatch.setattr("atlas.workers.claims.prefetch.time", clock)
    return clock


def test_an_idle_worker_asks_for_its_free_slots(demand):
    assert demand.request(ended=0) == Request(slots=4, prefetch=0, alone=True)
    demand.taken([a_job()], solo_waits=False)
    assert demand.request(ended=0) == Request(slots=3, prefetch=0, alone=False)
    assert demand.request(ended=1).slots == 4


def test_what_is_asked_for_already_and_what_occupies_a_slot_is_not_asked_for_again(demand):
    demand.occupied_slots = 1
    demand.in_flight.sent(Request(2, 0), finishes=0)
    assert demand.request(ended=0) == Request(slots=1, prefetch=0, alone=False)
    demand.in_flight.returned(Request(2, 0), finishes=0)
    assert demand.request(ended=0).slots == 3


def test_a_fast_worker_prefetches_what_it_ends_in_a_tenth_of_a_second(clock, held):
    demand = Demand(slots=4, batch=100, held=held)
    for _ in range(20):
        clock.now += 0.02
        for _ in range(10):
            demand.prefetch.job_ended()
        demand.request(ended=0)
    # About 500 jobs a second.
    assert 40 <= demand.request(ended=0).prefetch <= 55
    demand.prefetch.reset()
    assert demand.request(ended=0).prefetch == 0


def test_a_worker_prefetches_less_where_tenants_compete_and_more_the_more_they_are(clock, held):
    demand = Demand(slots=4, batch=2000, held=held)

    def prefetch(*tenants: int) -> int:
        for _ in range(20):
            clock.now += 0.02
            for _ in range(80):
                demand.prefetch.job_ended()
            demand.request(ended=0)
        for seen in tenants:
            demand.prefetch.contested(seen)
        return demand.request(ended=0).prefetch

    # About 4,000 jobs a second.
    assert 350 <= prefetch() <= 400
    assert 90 <= prefetch(2) <= 107
    assert 350 <= prefetch(50, 3, 2) <= 400
    assert 90 <= prefetch(*[2] * 100) <= 107


def test_one_call_asks_for_a_batch_at_most(clock, held):
    demand = Demand(slots=40, batch=10, held=held)
    assert demand.request(ended=0) == Request(slots=10, prefetch=0, alone=True)


def test_a_claim_that_found_too_few_ends_the_asking_until_the_next_hint(demand):
    demand.found_too_few(hints=demand.hints)
    assert demand.request(ended=0) is NO_JOBS
    sent_at = demand.hints
    demand.hint()
    demand.found_too_few(hints=sent_at)
    assert demand.request(ended=0).slots == 4


def test_nothing_is_asked_for_beside_a_job_that_must_run_alone(demand, held):
    request = demand.request(ended=0)
    demand.in_flight.sent(request, finishes=0)
    assert demand.request(ended=0) is NO_JOBS
    demand.in_flight.returned(request, finishes=0)
    suspect = a_job(alone=True)
    demand.taken([suspect], solo_waits=False)
    assert demand.request(ended=0) is NO_JOBS
    held.drop(suspect.id)
    assert demand.request(ended=0).alone


def test_a_worker_holds_back_for_a_job_that_must_run_alone_ever_longer(demand, clock):
    demand.taken([a_job()], solo_waits=True)
    assert demand.request(ended=0) is NO_JOBS
    clock.now += 5
    assert demand.request(ended=0).slots == 3
    demand.solo.seen(waiting=True)
    clock.now += 9
    assert demand.request(ended=0) is NO_JOBS
    clock.now += 1
    assert demand.request(ended=0).slots == 3
    demand.solo.seen(waiting=True)
    demand.solo.none_waits()
    assert demand.request(ended=0).slots == 3


def test_prefetched_jobs_are_stalled_when_nothing_began_or_ended_for_a_second(clock, held):
    demand = Demand(slots=1, batch=10, held=held)
    demand.taken([a_job()], solo_waits=False)
    clock.now += 0.9
    demand.taken([a_job()], solo_waits=False)  # Its slot is taken: no progress.
    assert not demand.prefetch.is_stalled
    clock.now += 0.2
    assert demand.prefetch.is_stalled
    demand.prefetch.job_ended()
    assert not demand.prefetch.is_stalled


async def test_a_drain_ends_when_nothing_is_due_or_atlas_is_offline():
    drain = Drain(when_empty=True, max_jobs=None)
    assert not drain.check(TurnResult(), found_nothing=False)
    assert drain.check(TurnResult(), found_nothing=True)
    assert (drain.ended.is_set(), drain.found_gate_closed) == (True, False)
    drain = Drain(when_empty=True, max_jobs=None)
    assert drain.check(TurnResult(closed=True), found_nothing=False)
    assert drain.found_gate_closed


async def test_a_limited_worker_asks_for_what_is_left_to_it_and_prefetches_nothing():
    drain = Drain(when_empty=True, max_jobs=5)
    assert drain.limit(Request(4, 10, alone=True), in_flight=0) == Request(4, 0, alone=True)
    assert drain.limit(Request(4, 10), in_flight=3) == Request(2, 0)
    drain.began([a_job() for _ in range(5)])
    assert drain.begun_types == {"test.noop": 5}
    assert drain.limit(Request(4, 10), in_flight=0) is NO_JOBS
    assert drain.check(TurnResult(), found_nothing=False)
