"""Transactions in a simulation: what they write and the outcome are one commit, whatever happens to their worker."""

from typing import Any

import pytest

from atlas import JobContext, Run, job, workflow
from atlas.engine.jobs.handlers import types
from atlas.engine.workflows import registry
from atlas.testing import Simulation, SimulationFailed, crash_everywhere
from atlas.testing.simulation.explore import explore

SCHEDULES = 400


class Shop:
    """What handlers see as the connection."""

    def __init__(self) -> None:
        self.bookings: list[int] = []
        self.total = 0

    async def execute(self, query: str, order: int) -> None:
        self.bookings.append(order)
        self.total += 1


class Bank:
    """A provider without idempotency keys."""

    def __init__(self) -> None:
        self.charges: list[int] = []

    async def charge(self, order: int) -> None:
        self.charges.append(order)


bank = Bank()
INSERT = "insert into bookings values ($1)"


@pytest.fixture(autouse=True)
def only_its_own(monkeypatch):
    """Handlers and workflows that these tests register are gone after them."""
    monkeypatch.setattr(types, "_registry", dict(types.registered()))
    monkeypatch.setattr(registry, "_registry", dict(registry.registered_workflows()))

    @job("sim.books", max_retries=9)
    async def books(input: dict[str, Any], ctx: JobContext) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(INSERT, input["order"])
            ctx.output({"booked": input["order"]})

    @job("sim.wrapped", transactional=True, max_retries=9)
    async def wrapped(input: dict[str, Any], ctx: JobContext) -> dict[str, int]:
        await ctx.connection.execute(INSERT, input["order"])
        return {"booked": input["order"]}

    @job("sim.charges_first", max_retries=9)
    async def charges_first(input: dict[str, Any], ctx: JobContext) -> None:
        await bank.charge(input["order"])
        async with ctx.transaction() as conn:
            await conn.execute(INSERT, input["order"])

    @job("sim.charges_within", max_retries=9)
    async def charges_within(input: dict[str, Any], ctx: JobContext) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(INSERT, input["order"])
            await bank.charge(input["order"])

    async def book_part(conn: Any, order: int) -> int:
        await conn.execute(INSERT, order)
        return order

    @workflow("sim.parts")
    async def parts(run: Run, input: dict[str, Any]) -> list[int]:
        first = await run.transaction("first", book_part, input["order"], retries=9)
        await run.sleep(60)
        return [first, await run.transaction("second", book_part, input["order"] + 1, retries=9)]


@pytest.mark.parametrize("job_type", ["sim.books", "sim.wrapped"])
def test_a_transaction_that_ends_a_job_writes_once_in_every_schedule(job_type):
    async def scenario(sim: Simulation) -> None:
        shop = sim.tables(Shop())
        sim.always("what is written is whole", lambda: shop.total == len(shop.bookings))
        jobs = {number: sim.enqueue(job_type, {"order": number}, max_retries=9) for number in (1, 2, 3)}
        sim.always(
            "a row and its outcome are one commit",
            lambda: set(shop.bookings) == {order for order, id in jobs.items() if sim.status(id) == "succeeded"},
        )
        await sim.run()
        assert sorted(shop.bookings) == [1, 2, 3]
        assert [sim.output(id) for id in jobs.values()] == [{"booked": order} for order in jobs]

    explore(scenario, SCHEDULES)


def test_a_step_in_a_transaction_writes_once_in_every_schedule():
    async def scenario(sim: Simulation) -> None:
        shop = sim.tables(Shop())
        run = sim.start_workflow("sim.parts", {"order": 1})
        await sim.run()
        assert (sim.status(run), sim.output(run), shop.bookings) == ("succeeded", [1, 2], [1, 2])

    explore(scenario, SCHEDULES)


@pytest.mark.parametrize("job_type", ["sim.charges_first", "sim.charges_within"])
def test_a_crash_anywhere_shows_the_effect_that_was_made_beside_the_transaction(monkeypatch, job_type):
    def set_up(sim: Simulation) -> list[int]:
        monkeypatch.setitem(globals(), "bank", sim.model(Bank()))
        sim.tables(Shop())
        return bank.charges

    findings = crash_everywhere(job_type, {"order": 7}, set_up)
    assert {finding.crash.partition(": ")[0] for finding in findings} == {
        "worker-1 calls Bank.charge",
        "worker-1 commits its transaction",
    }
    assert all((finding.twice, finding.never) == ([7], []) for finding in findings)


def test_a_crash_anywhere_shows_nothing_where_all_is_written_in_the_transaction():
    def set_up_tables(sim: Simulation) -> list[int]:
        return sim.tables(Shop()).bookings

    for target in ("sim.books", "sim.wrapped", "sim.parts"):
        assert crash_everywhere(target, {"order": 7}, set_up_tables) == []


def test_an_exception_rolls_back_and_a_simulation_without_tables_says_so():
    @job("sim.fails", max_retries=1)
    async def fails(input: dict[str, Any], ctx: JobContext) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(INSERT, 1)
            if ctx.attempt == 1:
                raise ValueError("after writing")

    async def scenario(sim: Simulation) -> None:
        shop = sim.tables(Shop())
        failing = sim.enqueue("sim.fails", {})
        await sim.run()
        assert (sim.status(failing), sim.job(failing).attempts, shop.bookings) == ("succeeded", 2, [1])

    async def bare(sim: Simulation) -> None:
        failing = sim.enqueue("sim.fails", {})
        await sim.run()
        assert sim.status(failing) == "succeeded", sim.job(failing).error

    explore(scenario, 1)
    with pytest.raises(SimulationFailed, match="has no tables"):
        explore(bare, 1)
