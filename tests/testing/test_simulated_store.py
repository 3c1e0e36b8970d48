"""The simulation decides as the database does: the same operations leave the same jobs, steps and questions in both.

Many sequences are followed side by side on one database, each with runs of its own: in each round every sequence does
something, then workers run all that is due, then time passes for all.

Time passes in hours and no wait is shorter than an hour, so that nothing becomes due by the minutes that the machine takes.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import orjson
import pytest

from atlas.engine.effects.settle import settle_effect
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.backoff import POLICIES, policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.lease import reap, retire_worker
from atlas.engine.jobs.verdicts import release
from atlas.testing import AtlasKit
from atlas.testing.simulation.attempts import run_attempt
from atlas.testing.simulation.explore import START
from atlas.testing.simulation.memory import SimulatedJob
from atlas.testing.simulation.schedule import Schedule
from atlas.testing.simulation.simulation import Simulation
from atlas.testing.simulation.virtual_loop import VirtualLoop
from atlas.workers.workflows import settle_intents
from tests.engine.jobs.given import given_worker
from tests.support import DANA, PROOF
from tests.testing.same_work import BOOKINGS, DELAY, HOWS, POLICY, STARTS, Bookings, calls

ROUNDS = 6 if PROOF else 3
# No wait of a workflow here ends at a multiple of these.
PASSED = (timedelta(hours=2), timedelta(hours=10), timedelta(hours=12))
# Longer than any retry here waits.
RETRIES = timedelta(hours=2)
MATCHED = ("rang", "knocked")


@pytest.fixture
async def kit(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AtlasKit]:
    # The policy of steps.
    monkeypatch.setitem(POLICIES, "capped", policy_of(POLICY))
    async with AtlasKit.open(database_url) as opened:
        async with opened.pool.acquire() as conn:
            await conn.execute(f"set role none; {BOOKINGS}")
        yield opened


class Side:
    """One of the two, as a sequence uses it."""

    def __init__(self) -> None:
        self.roots: dict[int, list[UUID]] = defaultdict(list)


class Simulated(Side):
    """A simulation for each sequence."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._bookings: list[Bookings] = []
        self._simulations = [self._new() for _ in range(count)]

    def _new(self) -> Simulation:
        found: list[Simulation] = []
        loop = VirtualLoop(lambda seconds: found[0].idle(seconds))
        found.append(Simulation(Schedule(), loop, START, run_attempt))
        self._bookings.append(found[0].tables(Bookings()))
        return found[0]

    async def do(self, sequence: int, operation: tuple[str, Any]) -> None:
        simulation, (what, given) = self._simulations[sequence], operation
        match what:
            case "start":
                self.roots[sequence].append(simulation.start_workflow(given, _input(sequence, self.roots)))
            case "enqueue":
                self.roots[sequence].append(simulation.enqueue(*given))
            case "publish":
                simulation.publish_event(*given)
            case "decide":
                for approval in simulation.memory.approvals:
                    simulation.memory.decide(approval, given, "approver")
            case "settle":
                for effect in simulation.effects.rows:
                    simulation.effects.settle(effect, done=given, reference="by hand" if given else None)
            case "cancel" if self.roots[sequence]:
                simulation.cancel(self.roots[sequence][given % len(self.roots[sequence])])

    async def run_due(self) -> None:
        # In a thread, which has no other event loop.
        await asyncio.to_thread(self._run_due)

    def _run_due(self) -> None:
        for simulation in self._simulations:
            simulation.loop.run_until_complete(simulation.run(timedelta(0)))

    async def die(self) -> None:
        for simulation in self._simulations:
            memory = simulation.memory
            for number, due in enumerate(memory.due_jobs()):
                worker = f"dies-{len(memory.leases)}-{number}"
                memory.claim(worker, due)
                memory.leases[worker] = simulation.loop.time()
            memory.reap()

    async def pass_time(self, passed: timedelta) -> None:
        for simulation in self._simulations:
            simulation._pass_time(simulation.loop.time() + passed.total_seconds())

    async def state(self, sequence: int) -> list[Any]:
        memory = self._simulations[sequence].memory

        def of_job(row: SimulatedJob) -> dict[str, Any]:
            found = _job(row.status, row.attempts, row.retries, row.losses, row.output, row.error)
            if row.job_type == "ENGINE_RUN":
                del found["attempts"]  # how often it was taken up depends on what came together
            found["effects"] = sorted(
                [one.step, one.name, one.state, one.reference or "", *one.other_references]
                for one in self._simulations[sequence].effects.rows
                if one.job_id == row.id
            )
            found["steps"] = {
                f"{step.branch}{step.position}": [
                    *(step.name, step.kind, step.status, step.attempts, _json(step.output), _message(step.error)),
                    None if step.approval is None else step.approval.status,
                    None if step.child is None else of_job(memory.jobs[step.child]),
                ]
                for step in memory.steps.get(row.id, {}).values()
            }
            return found

        return [self._bookings[sequence].rows, *(of_job(memory.jobs[root]) for root in self.roots[sequence])]


class Stored(Side):
    """A real database for all of them."""

    def __init__(self, kit: AtlasKit) -> None:
        super().__init__()
        self._kit = kit

    async def do(self, sequence: int, operation: tuple[str, Any]) -> None:
        what, given = operation
        match what:
            case "start":
                run_id = await self._kit.start_workflow(given, _input(sequence, self.roots))
                self.roots[sequence].append(run_id)
            case "enqueue":
                self.roots[sequence].append(await self._kit.enqueue(*given))
            case "publish":
                await self._kit.publish_event(*given)
            case "decide":
                for row in await self._kit.pool.fetch(_PENDING, self.roots[sequence]):
                    await (self._kit.approve if given else self._kit.reject)(row["run_id"])
            case "settle":
                async with self._kit.pool.acquire() as conn:
                    for row in await conn.fetch(_DOUBTS, self.roots[sequence]):
                        outcome, reference = ("done", "by hand") if given else ("not_done", None)
                        await settle_effect(conn, row["id"], outcome, actor=DANA, reference=reference)
            case "cancel" if self.roots[sequence]:
                root = self.roots[sequence][given % len(self.roots[sequence])]
                async with self._kit.pool.acquire() as conn:
                    await change_many(conn, "cancel", [root], actor=DANA, tenant_id=None)

    async def run_due(self) -> None:
        await self._kit.run_due_jobs()

    async def die(self) -> None:
        with self._kit.die_after_claim():
            await self._kit.run_due_jobs(limit=100_000)
        # At once, and not by the first worker that looks; seconds from then would be over while others run.
        async with self._kit.pool.acquire() as conn:
            taken_back = [row.id for row in await reap(conn, limit=100_000)]
        await self._kit.pool.execute(_LATER, taken_back, DELAY)

    async def give_back(self) -> None:
        """Claim what is due and give it back unstarted, as a worker does that has no processor for a second."""
        await settle_intents(self._kit.pool)
        async with self._kit.pool.acquire() as conn:
            worker = await given_worker(conn, *sorted(registered()))
            await finish(conn, worker, [release(job) for job in await claim(conn, worker, limit=100_000)])
            await retire_worker(conn, worker.id)

    async def pass_time(self, passed: timedelta) -> None:
        await self._kit.let_time_pass(passed)

    async def state(self, sequence: int) -> list[Any]:
        rows = {row["id"]: row for row in await self._kit.pool.fetch(_JOBS, self.roots[sequence])}
        found: dict[UUID, dict[str, Any]] = {
            id: {**_job(*[row[key] for key in _KEYS]), "effects": [], "steps": {}} for id, row in rows.items()
        }
        for id, row in rows.items():
            if row["job_type"] == "ENGINE_RUN":
                del found[id]["attempts"]
            else:
                found[id]["attempts"] -= row["given_back"]
        for one in await self._kit.pool.fetch(_EFFECTS, list(rows)):
            facts = [one["step"], one["name"], one["state"], one["reference"] or "", *one["other_references"]]
            found[one["job_id"]]["effects"].append(facts)
        for step in await self._kit.pool.fetch(_STEPS, list(rows)):
            found[step["run_id"]]["steps"][f"{step['branch']}{step['position']}"] = [
                *(step["name"], step["kind"], step["status"], step["attempts"], _json(step["output"])),
                *(_message(step["error"]), step["approval"]),
                None if step["child_id"] is None else found[step["child_id"]],
            ]
        rows = await self._kit.pool.fetch("select sequence from same_bookings where sequence = $1", sequence)
        return [[row["sequence"] for row in rows], *(found[root] for root in self.roots[sequence])]


_TREE = """with recursive tree(id) as (
  select unnest($1::uuid[]) union select j.id from atlas.jobs j join tree t on j.parent_run_id = t.id) """
_KEYS = ("status", "attempt_count", "retry_count", "lost_count", "output", "error")
_JOBS = f"""{_TREE} select j.id, j.job_type, {", ".join(f"j.{key}" for key in _KEYS)}, (
  select count(*) from atlas.job_attempts a where a.job_id = j.id and a.outcome = 'released') as given_back
from atlas.jobs j join tree t on t.id = j.id"""
_EFFECTS = "select * from atlas.effects where job_id = any ($1::uuid[]) order by step, name, state, reference"
_DOUBTS = f"""{_TREE} select e.id from atlas.effects e join tree t on t.id = e.job_id
where e.state in ('intended', 'unknown') order by e.created_at"""
_STEPS = """select s.*, a.status::text as approval from atlas.workflow_steps s
left join atlas.approvals a on a.id = s.approval_id where s.run_id = any ($1::uuid[])"""
_LATER = "update atlas.jobs set next_retry_at = next_retry_at + $2 where id = any ($1::uuid[]) and status = 'queued'"
_PENDING = f"{_TREE} select a.run_id from atlas.approvals a join tree t on t.id = a.run_id where a.status = 'pending'"


def _job(
    status: str, attempts: int, retries: int, losses: int, output: str | None, error: str | None
) -> dict[str, Any]:
    return {
        "status": status,
        "attempts": attempts,
        "retries": retries,
        "losses": losses,
        "output": _json(output or "{}"),
        "error": _message(error),
    }


def _json(text: str | None) -> Any:
    value = None if text is None else orjson.loads(text)
    # Each side gives an effect an id of its own.
    ids = {"asks", "effect"} & value.keys() if isinstance(value, dict) else ()
    return {**value, **dict.fromkeys(ids, "its id")} if ids else value


def _message(error: str | None) -> Any:
    return None if error in (None, "{}") else (orjson.loads(error).get("type"), orjson.loads(error).get("message"))


def _shown(state: list[Any]) -> list[str]:
    return orjson.dumps(state, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2).decode().splitlines()


def _input(sequence: int, roots: dict[int, list[UUID]]) -> dict[str, int]:
    return {"sequence": sequence, "n": len(roots[sequence]) + sequence}


def operations(sequence: int, seed: int) -> list[tuple[str, Any]]:
    """What a sequence does in each round."""
    random = Random(seed)

    def one() -> tuple[str, Any]:
        what = random.choice(
            [
                "start",
                "start",
                "start",
                "enqueue",
                "enqueue",
                "publish",
                "publish",
                "decide",
                "settle",
                "cancel",
                "rest",
            ]
        )
        match what:
            case "start":
                return what, random.choice(STARTS)
            case "enqueue":
                job_type, given = random.choice(
                    [
                        ("same.flaky", {"fails": random.randrange(5)}),
                        ("same.settles", {"how": random.choice(["snooze", "later", "never"])}),
                        ("same.charges", {"how": random.choice(sorted(HOWS))}),
                        ("same.books", {"fails": random.randrange(5)}),
                    ]
                )
                return what, (job_type, {**given, "sequence": sequence})
            case "publish":
                return what, (random.choice(MATCHED), {"sequence": sequence, "n": random.randrange(3)})
            case "decide" | "settle":
                return what, random.random() < 0.7
            case _:
                return what, random.randrange(9)

    return [("start", random.choice(STARTS)), *(one() for _ in range(ROUNDS - 1))]


async def compare(kit: AtlasKit, count: int, seed: int, *, rounds: int = ROUNDS) -> None:
    calls.clear()
    random = Random(seed)
    followed = [operations(sequence, seed * 1_000_003 + sequence) for sequence in range(count)]
    simulated, stored = Simulated(count), Stored(kit)
    for number in range(rounds):
        passed, dies = random.choice(PASSED), random.random() < 0.2
        for side in (simulated, stored):
            for sequence in range(count):
                await side.do(sequence, followed[sequence][number])
            if side is stored and number % 2 == 0:
                # What was given back did not begin: it is as if it had not been claimed.
                await stored.give_back()
            if dies:
                await side.die()
            await side.run_due()
            # Then the retries, one after another.
            for span in (passed, *[RETRIES] * 5):
                await side.pass_time(span)
                await side.run_due()
        for sequence in range(count):
            told = f"seed {seed}, sequence {sequence}, round {number}: {followed[sequence][: number + 1]}"
            expected, found = await stored.state(sequence), await simulated.state(sequence)
            assert _shown(found) == _shown(expected), told


async def test_both_end_in_the_same_state(kit: AtlasKit) -> None:
    # With this seed workers die in the first round.
    await compare(kit, 8, seed=10, rounds=2)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(2, 27))
async def test_five_thousand_sequences_end_in_the_same_state(kit: AtlasKit, seed: int) -> None:
    await compare(kit, 200, seed)
