"""The ledger of effects in a simulation decides as that of the database: the same calls return and leave the same."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import UUID

import pytest

from atlas import Done, JobContext, NotDone, OpenEffect, job, workflow
from atlas.engine.effects.ledger import EffectLedger
from atlas.engine.effects.settle import settle_effect
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.handlers import types
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.workflows import registry
from atlas.engine.workflows.run_context import Run
from atlas.errors import Conflict
from atlas.testing import Simulation, crash_everywhere
from atlas.testing.simulation.effects import SimulatedEffects, SimulatedLedger
from atlas.testing.simulation.memory import Memory
from atlas.testing.simulation.simulation import MAX_LOSSES
from tests.engine.jobs.given import given_job, given_worker, lose_lease
from tests.support import DANA, PROOF

SEQUENCES, OPERATIONS = (500, 40) if PROOF else (12, 25)
DUE = """update atlas.jobs set next_retry_at = null, due_at = clock_timestamp()
where id = $1 and status = 'queued' and next_retry_at < '9000-01-01'"""
ROWS = """select state, attempt_no, reference, other_references, settled_at is not null from atlas.effects
where job_id = $1 order by created_at"""
JOB = "select status::text, attempt_count, next_retry_at is not null and next_retry_at > '9000-01-01' from atlas.jobs where id = $1"
NAMES = ("bank.charge", "mail.send")


class StoredJob:
    """A job of the database, and the effects of its attempts."""

    def __init__(self, conn: Any, job_id: UUID, job_type: str) -> None:
        self._conn = conn
        self._id = job_id
        self._type = job_type
        self._workers: list[Any] = []
        self._ledgers: list[EffectLedger] = []
        self._effects: list[UUID] = []

    async def do(self, what: str, attempt: int, effect: int, **facts: Any) -> Any:
        """Do it, and return what is said of it."""
        match what:
            case "claim":
                worker = await given_worker(self._conn, self._type)
                claimed = await claim(self._conn, worker, limit=1)
                if claimed:
                    self._workers.append(worker)
                    self._ledgers.append(EffectLedger(self._work, worker.id, self._id, claimed[0].attempt))
                return len(claimed)
            case "lose" if self._workers:
                await lose_lease(self._conn, self._workers[-1])
                await reap(self._conn)
                return await self._conn.execute(DUE, self._id) and None
            case "begin" if self._ledgers:
                begun = await self._ledgers[attempt % len(self._ledgers)].begin(**facts)
                if begun.verdict != "lost" and begun.id not in self._effects:
                    self._effects.append(begun.id)
                return begun.verdict, begun.reference
            case "end" if self._effects:
                ledger = self._ledgers[attempt % len(self._ledgers)]
                return await ledger.end(self._effects[effect % len(self._effects)], **facts)
            case "ask" if self._effects:
                ledger = self._ledgers[attempt % len(self._ledgers)]
                return await ledger.ask(self._effects[effect % len(self._effects)], "Was it made?", "")
            case "settle" if self._effects:
                outcome, reference = ("done", "by hand") if facts["done"] else ("not_done", None)
                try:
                    id = self._effects[effect % len(self._effects)]
                    await settle_effect(self._conn, id, outcome, actor=DANA, reference=reference)  # type: ignore[arg-type]
                except Conflict:
                    return False
                return True
            case "cancel":
                await change_many(self._conn, "cancel", [self._id], actor=DANA, tenant_id=None)
        return None

    async def state(self) -> Any:
        rows = await self._conn.fetch(ROWS, self._id)
        return tuple(await self._conn.fetchrow(JOB, self._id)), [tuple(row) for row in rows]

    async def _work(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        return await call(self._conn)


class SimulatedLedgers:
    """The same of a simulation."""

    def __init__(self) -> None:
        self._memory = Memory(lambda: 0.0, datetime(2026, 1, 1, tzinfo=UTC))
        self._effects = SimulatedEffects(self._memory)
        self._job = self._memory.add_job("same.ledger", "{}")
        self._ledgers: list[SimulatedLedger] = []

    async def do(self, what: str, attempt: int, effect: int, **facts: Any) -> Any:
        rows = self._effects.rows
        match what:
            case "claim":
                due = self._memory.due_jobs()
                for row in due:
                    worker = f"worker {len(self._ledgers)}"
                    self._memory.claim(worker, row)
                    ledger = SimulatedLedger(self._effects, worker, _commit, (row.id, row.attempts))
                    self._ledgers.append(ledger)
                return len(due)
            case "lose" if self._ledgers:
                self._memory.leases[f"worker {len(self._ledgers) - 1}"] = 0.0
                self._memory.reap()
                if self._job.due < 9000:
                    self._job.due = 0.0
            case "begin" if self._ledgers:
                begun = await self._ledgers[attempt % len(self._ledgers)].begin(**facts)
                return begun.verdict, begun.reference
            case "end" if rows:
                return await self._ledgers[attempt % len(self._ledgers)].end(rows[effect % len(rows)].id, **facts)
            case "ask" if rows:
                return await self._ledgers[attempt % len(self._ledgers)].ask(rows[effect % len(rows)].id, "", "")
            case "settle" if rows:
                reference = "by hand" if facts["done"] else None
                return self._effects.settle(rows[effect % len(rows)], done=facts["done"], reference=reference)
            case "cancel":
                self._memory.cancel(self._job.id)
        return None

    async def state(self) -> Any:
        rows = [
            (row.state, row.attempt, row.reference, row.other_references, row.is_settled) for row in self._effects.rows
        ]
        waits = self._job.status == "queued" and self._job.due > 9000
        return (self._job.status, self._job.attempts, waits), rows


async def _commit(what: str, work: Callable[[], Any]) -> Any:
    return work()


def draw(random: Random) -> tuple[str, dict[str, Any]]:
    what = random.choice(["claim", "claim", "begin", "begin", "begin", "end", "end", "end", "ask", "settle", "lose"])
    match what if random.random() > 0.01 else "cancel":
        case "begin":
            return "begin", {"name": random.choice(NAMES), "key": "k", "detail": {}, "again": random.random() < 0.3}
        case "end":
            state = random.choice(["done", "done", "refused", "unknown"])
            reference = random.choice(["a", "b", None]) if state == "done" else None
            return "end", {"state": state, "reference": reference, "found": random.random() < 0.2}
        case "settle":
            return "settle", {"done": random.random() < 0.5}
        case other:
            return other, {}


async def test_both_ledgers_decide_alike(conn: Any) -> None:
    await switch(conn, online=True, actor=DANA)
    for sequence in range(SEQUENCES):
        random, job_type = Random(sequence), f"same.ledger{sequence}"
        job_id = await given_job(conn, job_type, allow_unknown=True)
        stored, simulated = StoredJob(conn, job_id, job_type), SimulatedLedgers()
        done: list[Any] = [("claim", {})]
        for _ in range(OPERATIONS):
            (what, facts), attempt = done[-1], random.choice([-1, -1, random.randrange(9)])
            effect = random.randrange(9)
            told = [await side.do(what, attempt, effect, **facts) for side in (stored, simulated)]
            states = [await side.state() for side in (stored, simulated)]
            assert (told[1], states[1]) == (told[0], states[0]), (sequence, done)
            # Whether the third loss is the job's fault depends on all workers of an installation; a simulation has no third.
            lost = sum(one[0] == "lose" for one in done)
            done.append(next(one for one in iter(lambda: draw(random), None) if one[0] != "lose" or lost < MAX_LOSSES))


# What a user tests.


class Bank:
    """A provider that keeps no key: each call is another charge."""

    def __init__(self) -> None:
        self.charges: list[str] = []

    async def charge(self, key: str) -> str:
        self.charges.append(key)
        return f"ch_{len(self.charges)}"

    async def find(self, key: str) -> Done | NotDone:
        return Done("found") if key in self.charges else NotDone()


@pytest.mark.parametrize("target", ["same.pay", "same.pay_in_run"])
@pytest.mark.parametrize("settles", ["the bank says", "a person says", "it is called blindly"])
def test_a_crash_around_an_effect_makes_it_once(target: str, settles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "_registry", dict(types.registered()))
    monkeypatch.setattr(registry, "_registry", dict(registry.registered_workflows()))
    banks: list[Bank] = []

    async def pay(effect: OpenEffect) -> str:
        return await banks[-1].charge(effect.key)

    async def look_up(key: str) -> Any:
        return await banks[-1].find(key)

    options: dict[str, Any] = {"the bank says": {"lookup": look_up}, "it is called blindly": {"repeatable": True}}
    chosen = options.get(settles, {})

    @job("same.pay")
    async def in_job(input: dict[str, Any], ctx: JobContext) -> str | None:
        return await ctx.effect("bank.charge", pay, **chosen)

    @workflow("same.pay_in_run")
    async def in_run(run: Run, input: dict[str, Any]) -> str | None:
        return await run.effect("bank.charge", pay, **chosen)

    def set_up(sim: Simulation) -> list[str]:
        bank = Bank()
        banks.append(sim.model(bank))
        if settles == "a person says":
            sim.settle_effects(lambda effect: Done("found") if effect.key in bank.charges else NotDone())
        return bank.charges

    findings = crash_everywhere(target, {}, set_up)
    if settles == "it is called blindly":
        assert [len(finding.twice) for finding in findings if "calls Bank.charge" in finding.crash] == [1]
    else:
        assert findings == []
