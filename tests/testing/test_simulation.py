"""The simulation finds what people get wrong, prints how to repeat it, and finds nothing in what is right."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from atlas import JobContext, Snooze, job, workflow
from atlas.engine.jobs.handlers import types
from atlas.engine.workflows import registry
from atlas.errors import NotFound
from atlas.testing import LostAnswer, Simulation, SimulationFailed, crash_everywhere, replay_schedule, simulate
from atlas.testing.simulation.explore import explore
from atlas.testing.simulation.memory import contains
from tests.support import some
from tests.testing.seeded_bugs import BUGS, World, charge_without_a_key

SCHEDULES = 2000


@pytest.fixture(autouse=True)
def only_its_own(monkeypatch):
    """What a simulation registers is gone after it: workers of other tests serve all that is registered."""
    monkeypatch.setattr(types, "_registry", dict(types.registered()))
    monkeypatch.setattr(registry, "_registry", dict(registry.registered_workflows()))


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found_and_repeats(name):
    scenario = BUGS[name](False)

    with pytest.raises(SimulationFailed) as found:
        explore(scenario, SCHEDULES)

    for _ in range(2):
        with pytest.raises(SimulationFailed) as again:
            replay_schedule(scenario, found.value.choices)
        assert str(again.value).partition("\n")[0] == str(found.value).partition("\n")[0]


@pytest.mark.parametrize("name", some(sorted(BUGS), every=4))
def test_nothing_is_found_in_what_is_right(name):
    explore(BUGS[name](True), 40)


@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_nothing_is_found_in_what_is_right_within_all_schedules(name):
    explore(BUGS[name](True), SCHEDULES)


def test_a_failure_says_what_happened_and_how_to_repeat_it():
    with pytest.raises(SimulationFailed) as found:
        explore(charge_without_a_key(False), SCHEDULES)

    told = str(found.value)
    assert told.startswith("InvariantBroken: charge happens once\n")
    assert "worker-1 calls World.do: is killed after the call" in told
    assert "import tests.testing.seeded_bugs\n" in told
    assert (
        f"def scenario_again():\n    replay_schedule(tests.testing.seeded_bugs.scenario, {found.value.choices})" in told
    )
    assert len(found.value.choices) == 1


def test_a_test_has_its_fixtures_and_as_many_schedules_as_it_says(tmp_path):
    runs: list[str] = []

    @simulate(schedules=7)
    async def scenario(sim: Simulation, folder: Any) -> None:
        runs.append(folder.name)

    scenario(folder=tmp_path)

    # One that chooses nothing has no other schedules but those that are drawn.
    assert runs == [tmp_path.name] * 7


def test_time_is_virtual_for_handlers_workflows_and_clocks():
    @workflow("sim.clock")
    async def waits(run, input):
        before = await run.now()
        await run.sleep(timedelta(days=3))
        return {"days": ((await run.now()) - before).days, "seen": datetime.now(UTC).day}

    @job("sim.slow", timeout=timedelta(seconds=5), max_retries=0)
    async def slow(input, ctx: JobContext):
        await asyncio.sleep(60)

    @simulate(schedules=1)
    async def scenario(sim: Simulation) -> None:
        run, late = sim.start_workflow("sim.clock"), sim.enqueue("sim.slow")
        await sim.run()
        assert sim.output(run) == {"days": 3, "seen": 4}
        assert (sim.status(late), "did not end within 5 s" in (sim.job(late).error or "")) == ("failed", True)
        assert sim.now >= datetime(2026, 1, 4, 9, tzinfo=UTC)

    scenario()


def test_a_handler_gets_what_the_test_provides():
    @job("sim.provided")
    async def pay(input: dict[str, Any], ctx: JobContext, world: World) -> None:
        await world.do("charge", ctx.idempotency_key)

    @simulate(schedules=20)
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())
        sim.provide(world, as_type=World)
        paid = sim.enqueue("sim.provided")
        await sim.run()
        assert (sim.status(paid), world.done) == ("succeeded", ["charge"])

    scenario()


@pytest.mark.parametrize("has_key", [True, False])
def test_a_crash_at_every_point_shows_what_happens_twice(has_key):
    seen: list[World] = []

    @workflow("sim.crashes")
    async def pay(run, input):
        async def charge():
            return await seen[-1].do("charge", run.idempotency_key("charge") if has_key else None)

        await run.step("charge", charge)
        await run.step("mail", lambda: seen[-1].do("mail", run.idempotency_key("mail")))

    def set_up(sim: Simulation) -> list[str]:
        seen.append(sim.model(World()))
        return seen[-1].done

    found = crash_everywhere("sim.crashes", {}, set_up)

    told = [
        "worker-1 calls World.do: is killed after the call",
        "worker-1 records step 'charge': is killed before it commits",
    ]
    assert [one.crash for one in found] == ([] if has_key else told)
    assert all((one.twice, one.never, one.status) == (["charge"], [], "succeeded") for one in found)
    assert str(found[0] if found else "").startswith("" if has_key else f"{told[0]}: twice: charge")


def test_a_lost_answer_is_a_connection_error():
    assert issubclass(LostAnswer, ConnectionError)


def test_what_is_not_registered_is_refused_by_name():
    @simulate(schedules=1)
    async def scenario(sim: Simulation) -> None:
        with pytest.raises(NotFound, match="no.such.job"):
            sim.enqueue("no.such.job")
        with pytest.raises(NotFound, match="no.such.flow"):
            sim.start_workflow("no.such.flow")

    scenario()


@pytest.mark.long
def test_a_job_that_never_ends_is_a_failure():
    @job("sim.endless")
    async def endless(input, ctx: JobContext):
        raise Snooze(1)

    async def scenario(sim: Simulation) -> None:
        sim.enqueue("sim.endless")
        await sim.run()

    with pytest.raises(SimulationFailed, match=r"did not end within 20,000 turns"):
        explore(scenario, 1)


@pytest.mark.parametrize(
    ("value", "part", "is_contained"),
    [
        ({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [2]}}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": [1, [2, 3]]}, {"a": [[3]]}, True),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": {}}, {"a": []}, False),
    ],
)
async def test_a_match_is_contained_as_in_postgres(conn, value, part, is_contained):
    assert contains(value, part) is is_contained
    assert await conn.fetchval("select $1::jsonb @> $2::jsonb", _text(value), _text(part)) is is_contained


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
