"""The life of a job against a small model of it: random verbs, and after each the rows are what the model says."""

import asyncio
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from atlas.db.pool import connect
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lease import heartbeat, reap
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import JobCanceled, decide, release, snooze
from atlas.test_databases import TestDatabases
from tests.engine.jobs.given import given_job, given_worker, lose_lease, make_due, success
from tests.support import DANA, PROOF

RUNS, STEPS = (200, 50) if PROOF else (15, 30)


@dataclass
class Model:
    status: str = "queued"
    due: bool = True
    attempts: int = 0
    retries: int = 0
    losses: int = 0
    asked: bool = False
    holder: int | None = None
    dead: bool = False


class Life(RuleBasedStateMachine):
    url: str
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.type = f"machine.{uuid4().hex}"
        self.conn = self.do(connect(self.url))
        self.do(switch(self.conn, online=True, actor=DANA))
        self.online = True
        self.jobs: dict[UUID, Model] = {}
        self.workers = [self.do(given_worker(self.conn, self.type)) for _ in range(2)]
        self.alive = [True, True]
        self.held: list[tuple[int, object]] = []

    def do(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def teardown(self) -> None:
        self.do(self.conn.execute("delete from atlas.job_workers where job_types = array[$1]", self.type))
        self.do(self.conn.execute("delete from atlas.jobs where job_type = $1", self.type))
        self.do(self.conn.close())

    @precondition(lambda self: len(self.jobs) < 5)
    @rule(retries=st.integers(0, 2))
    def enqueue(self, retries):
        self.jobs[self.do(given_job(self.conn, self.type, max_retries=retries))] = Model()
        self.limits = getattr(self, "limits", {}) | {list(self.jobs)[-1]: retries}

    @rule(who=st.integers(0, 1), many=st.integers(1, 3))
    def claims(self, who, many):
        taken = self.do(claim(self.conn, self.workers[who], limit=many))
        ready = [key for key, one in self.jobs.items() if one.status == "queued" and one.due]
        expected = min(many, len(ready)) if self.online and self.alive[who] else 0
        assert len(taken) == expected
        for job in taken:
            one = self.jobs[job.id]
            assert one.status == "queued"
            assert one.due
            one.status, one.holder, one.attempts = "running", who, one.attempts + 1
            assert job.attempt == one.attempts
            self.held.append((who, job))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=st.sampled_from(["succeed", "fail", "release", "snooze", "cancel"]))
    def ends(self, data, how):
        who, job = data.draw(st.sampled_from(self.held))
        worker = self.workers[who]
        made = {
            "succeed": lambda: success(worker, job),
            "fail": lambda: decide(job, worker.id, ValueError("x"), ATLAS),
            "release": lambda: release(job),
            "snooze": lambda: snooze(job, 60),
            "cancel": lambda: decide(job, worker.id, JobCanceled("x"), ATLAS),
        }[how]()
        turn = self.do(finish(self.conn, worker, [made]))
        one = self.jobs[job.id]
        mine = one.status == "running" and one.holder == who and one.attempts == job.attempt and self.alive[who]
        requeues = made.status == "queued"
        if not mine:
            assert turn.lost == [(job.id, job.attempt)] or (turn.canceled and one.asked)
            return
        if requeues and one.asked:
            assert turn.canceled == [(job.id, job.attempt)]
            return
        assert turn.lost == []
        one.holder = None
        one.status = made.status
        one.retries += how == "fail"
        one.due = how in ("release",) if requeues else one.due
        one.dead = how == "fail" and made.status == "failed"

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancels(self, data):
        key = data.draw(st.sampled_from(sorted(self.jobs)))
        verdict = self.do(change_many(self.conn, "cancel", [key], actor=DANA, tenant_id=None))[key]
        one = self.jobs[key]
        if one.status == "queued":
            assert verdict == "canceled"
            one.status, one.asked = "canceled", True
        elif one.status == "running":
            assert verdict == "requested"
            one.asked = True
        else:
            assert verdict == "ended"

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def retries_by_hand(self, data):
        key = data.draw(st.sampled_from(sorted(self.jobs)))
        verdict = self.do(change_many(self.conn, "retry", [key], actor=DANA, tenant_id=None))[key]
        one = self.jobs[key]
        if one.status in ("failed", "canceled"):
            assert verdict == "retried"
            one.status, one.due, one.retries, one.losses, one.asked, one.dead = "queued", True, 0, 0, False, False
        else:
            assert verdict == one.status

    @precondition(lambda self: any(job.status == "queued" and not job.due for job in self.jobs.values()))
    @rule(data=st.data())
    def time_passes(self, data):
        waiting = sorted(key for key, one in self.jobs.items() if one.status == "queued" and not one.due)
        key = data.draw(st.sampled_from(waiting))
        self.do(make_due(self.conn, key))
        self.jobs[key].due = True

    @rule(who=st.integers(0, 1))
    def dies(self, who):
        self.do(lose_lease(self.conn, self.workers[who]))
        self.alive[who] = False

    @rule()
    def reaps(self):
        taken = {row[0]: row[2] for row in self.do(reap(self.conn))}
        for key, one in self.jobs.items():
            lost = one.status == "running" and not self.alive[one.holder]
            assert (key in taken) == lost
            if not lost:
                continue
            one.losses += 1
            expected = "canceled" if one.asked else "poisoned" if one.losses >= 3 else "requeued"
            assert taken[key] == expected
            one.status = {"requeued": "queued", "poisoned": "failed", "canceled": "canceled"}[expected]
            one.due, one.holder, one.dead = False, None, expected == "poisoned"
        for who, alive in enumerate(self.alive):
            if not alive:
                assert not self.do(heartbeat(self.conn, self.workers[who].id, lease=60, running=0))

    @rule(who=st.integers(0, 1))
    def is_replaced(self, who):
        if not self.alive[who]:
            self.reaps()
            self.workers[who] = self.do(given_worker(self.conn, self.type))
            self.alive[who] = True
            self.held = [(owner, job) for owner, job in self.held if owner != who]

    @rule(online=st.booleans())
    def gate_turns(self, online):
        self.do(switch(self.conn, online=online, actor=DANA))
        self.online = online

    @invariant()
    def the_rows_are_what_the_model_says(self):
        rows = self.do(self.conn.fetch("select * from atlas.jobs where job_type = $1", self.type))
        assert {row["id"] for row in rows} == set(self.jobs)
        for row in rows:
            one = self.jobs[row["id"]]
            stored = (
                row["status"],
                row["attempt_count"],
                row["retry_count"],
                row["lost_count"],
                row["dead_lettered_at"] is not None,
            )
            assert stored == (one.status, one.attempts, one.retries, one.losses, one.dead)
            assert (row["cancel_requested_at"] is not None) == one.asked
            assert row["retry_count"] <= row["max_retries"] + 1


@pytest.fixture
def machine_url(databases: TestDatabases):
    """A database for all runs; the machine has an event loop of its own, so this test is not async."""
    loop = asyncio.new_event_loop()
    context = databases.database()
    url = loop.run_until_complete(context.__aenter__())
    Life.loop, Life.url = loop, url
    yield url
    loop.run_until_complete(context.__aexit__(None, None, None))
    loop.close()


def test_random_lives_agree_with_the_model(machine_url):
    run_state_machine_as_test(Life, settings=settings(max_examples=RUNS, stateful_step_count=STEPS))
