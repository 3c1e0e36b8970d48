"""Bugs that people put into workflows and handlers, each with its correction, for the simulation to find.

Each function makes a scenario: with the bug, or corrected.
"""

import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from atlas import JobContext, Run, StepFailed, job, workflow
from atlas.testing import Simulation

Scenario = Callable[[Simulation], Awaitable[None]]
BUGS: dict[str, Callable[[bool], Scenario]] = {}


class World:
    """The other systems: what was done there, in order. A key makes a call count once."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: set[str] = set()
        self.balance = 0
        self.locked = False
        self.level = 3

    async def do(self, what: str, key: str | None = None) -> dict[str, Any]:
        return self._do(what, key)

    def do_plainly(self, what: str, key: str | None = None) -> dict[str, Any]:
        return self._do(what, key)

    def _do(self, what: str, key: str | None) -> dict[str, Any]:
        if key is None or key not in self.keys:
            self.done.append(what)
        if key is not None:
            self.keys.add(key)
        return {"ok": True}

    async def void(self, what: str, key: str) -> bool:
        """Forbid what has this key unless it was done; both at once, so that nothing comes between."""
        self.keys.add(key)
        return what not in self.done

    async def has(self, what: str) -> bool:
        return what in self.done

    async def read(self) -> int:
        return self.balance

    async def write(self, value: int) -> None:
        self.balance = value

    async def add(self, value: int, key: str) -> None:
        if key not in self.keys:
            self.keys.add(key)
            self.balance += value

    async def lock(self) -> None:
        self.locked = True

    async def unlock(self) -> None:
        self.locked = False

    async def take(self) -> int:
        self.level -= 1
        return self.level


def bug(make: Callable[[bool], Scenario]) -> Callable[[bool], Scenario]:
    BUGS[make.__name__] = make
    return make


def once(sim: Simulation, world: World, what: str) -> None:
    sim.always(f"{what} happens once", lambda: world.done.count(what) <= 1)


async def ends(sim: Simulation, *started: Any) -> None:
    await sim.run()
    assert [sim.status(one) for one in started] == ["succeeded"] * len(started)


@bug
def charge_without_a_key(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.charge")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            await run.step("charge", lambda: world.do("charge", run.idempotency_key("charge") if fixed else None))

        once(sim, world, "charge")
        await ends(sim, sim.start_workflow("bug.charge"))

    return scenario


@bug
def job_without_a_key(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.job")
        async def pay(input: dict[str, Any], ctx: JobContext) -> None:
            await world.do("charge", ctx.idempotency_key if fixed else None)

        once(sim, world, "charge")
        await ends(sim, sim.enqueue("bug.job"))

    return scenario


@bug
def plain_handler_without_a_key(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.plain")
        def pay(input: dict[str, Any], ctx: JobContext) -> None:
            world.do_plainly("charge", ctx.idempotency_key if fixed else None)

        once(sim, world, "charge")
        await ends(sim, sim.enqueue("bug.plain"))

    return scenario


@bug
def plain_step_without_a_key(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.plain-step")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            def charge() -> None:
                world.do_plainly("charge", run.idempotency_key("charge") if fixed else None)

            await run.step("charge", charge)

        once(sim, world, "charge")
        await ends(sim, sim.start_workflow("bug.plain-step"))

    return scenario


@bug
def random_key(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.random-key")
        async def pay(input: dict[str, Any], ctx: JobContext) -> None:
            await world.do("charge", ctx.idempotency_key if fixed else str(uuid4()))

        once(sim, world, "charge")
        await ends(sim, sim.enqueue("bug.random-key"))

    return scenario


@bug
def key_from_the_clock(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.clock-key")
        async def pay(input: dict[str, Any], ctx: JobContext) -> None:
            await world.do("charge", ctx.idempotency_key if fixed else f"{datetime.now():%H:%M}")

        once(sim, world, "charge")
        await ends(sim, sim.enqueue("bug.clock-key"))

    return scenario


@bug
def key_from_the_attempt(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.attempt-key")
        async def pay(input: dict[str, Any], ctx: JobContext) -> None:
            await world.do("charge", ctx.idempotency_key if fixed else f"{ctx.job_id}:{ctx.attempt}")

        once(sim, world, "charge")
        await ends(sim, sim.enqueue("bug.attempt-key"))

    return scenario


@bug
def two_effects_in_one_step(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.two")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            async def both() -> None:
                await world.do("charge", run.idempotency_key("both"))
                await world.do("mail", f"{run.id}:mail" if fixed else None)

            await run.step("both", both)

        once(sim, world, "mail")
        await ends(sim, sim.start_workflow("bug.two"))

    return scenario


@bug
def loop_without_keys(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.loop")
        async def mail(input: dict[str, Any], ctx: JobContext) -> None:
            for name in ("ada", "bob", "eve"):
                await world.do(name, f"{ctx.job_id}:{name}" if fixed else None)

        for name in ("ada", "bob", "eve"):
            once(sim, world, name)
        await ends(sim, sim.enqueue("bug.loop"))

    return scenario


@bug
def undo_registered_too_late(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.late-undo")
        async def book(run: Run, input: dict[str, Any]) -> None:
            key = f"{run.id}:book"
            if fixed:
                run.on_failure("unbook", lambda: world.do("unbook", f"{key}:undo"))
            await run.step("book", lambda: world.do("book", key), retries=0)
            run.on_failure("unbook again", lambda: world.do("unbook", f"{key}:undo"))
            raise RuntimeError("the rest fails")

        await _ends_undone(sim, world, sim.start_workflow("bug.late-undo"))

    return scenario


async def _ends_undone(sim: Simulation, world: World, run: Any) -> None:
    await sim.run()
    assert sim.status(run) == "failed"
    assert "book" not in world.done or "unbook" in world.done, "booked and not undone"


@bug
def undo_without_a_key(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.undo-key")
        async def book(run: Run, input: dict[str, Any]) -> None:
            run.on_failure("refund", lambda: world.do("refund", f"{run.id}:refund" if fixed else None))
            raise RuntimeError("it fails")

        once(sim, world, "refund")
        sim.start_workflow("bug.undo-key")
        await sim.run()

    return scenario


@bug
def undone_in_the_wrong_order(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.order")
        async def sell(run: Run, input: dict[str, Any]) -> None:
            try:
                await run.step("ship", lambda: world.do("ship", f"{run.id}:ship"))
                await run.step("charge", lambda: world.do("charge", f"{run.id}:charge"), retries=0)
            except StepFailed:
                undo = ["recall", "close"] if fixed else ["close", "recall"]
                for name in undo:
                    await run.step(name, lambda name=name: world.do(name, f"{run.id}:{name}"))  # type: ignore[misc]

        sim.always("what is closed was recalled", lambda: "close" not in world.done or "recall" in world.done)
        sim.start_workflow("bug.order")
        await sim.run()

    return scenario


@bug
def undone_outside_of_a_step(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.outside")
        async def sell(run: Run, input: dict[str, Any]) -> None:
            try:
                await run.step("charge", lambda: world.do("charge", f"{run.id}:charge"), retries=0)
            except StepFailed:
                if fixed:
                    await run.step("sorry", lambda: world.do("sorry", f"{run.id}:sorry"))
                else:
                    await world.do("sorry")
                await run.sleep(60)

        once(sim, world, "sorry")
        await ends(sim, sim.start_workflow("bug.outside"))

    return scenario


@bug
def event_before_the_start(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())
        runs: list[Any] = []

        @workflow("bug.early-event")
        async def wait(run: Run, input: dict[str, Any]) -> None:
            if not (fixed and await run.step("paid already?", lambda: world.has("paid"))):
                await run.wait_event("paid")

        async def paid() -> None: ...

        def pay() -> None:
            world.done.append("paid")
            sim.publish_event("paid")

        sim.at_any_time("the customer pays", pay)
        sim.at_any_time("the order comes", lambda: runs.append(sim.start_workflow("bug.early-event")))
        await sim.run()
        assert [sim.status(run) for run in runs] == ["succeeded"]

    return scenario


@bug
def clock_read_between_steps(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.clock")
        async def greet(run: Run, input: dict[str, Any]) -> None:
            now = await run.now() if fixed else datetime.now()
            await run.step("morning" if now.minute < 30 else "later", lambda: world.do("greet", f"{run.id}:greet"))
            await run.sleep(timedelta(minutes=45))
            await run.step("end", lambda: world.do("end", f"{run.id}:end"))

        await ends(sim, sim.start_workflow("bug.clock"))

    return scenario


@bug
def random_branch(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.random")
        async def draw(run: Run, input: dict[str, Any]) -> None:
            drawn = await run.random() if fixed else random.random()
            await run.step("left" if drawn < 0.5 else "right", lambda: world.do("drawn", f"{run.id}:drawn"))
            await run.sleep(60)
            await run.step("end", lambda: world.do("end", f"{run.id}:end"))

        await ends(sim, *(sim.start_workflow("bug.random") for _ in range(4)))

    return scenario


@bug
def outside_state_between_steps(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.state")
        async def order(run: Run, input: dict[str, Any]) -> None:
            async def level() -> int:
                return world.level

            left = await run.step("level", level) if fixed else world.level
            await run.step("sell" if left > 2 else "refuse", lambda: world.take())
            await run.sleep(60)

        await ends(sim, sim.start_workflow("bug.state"))

    return scenario


@bug
def state_of_the_module(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())
        calls = [0]

        @workflow("bug.module")
        async def count(run: Run, input: dict[str, Any]) -> None:
            calls[0] += 1
            number = 1 if fixed else calls[0]
            await run.step(f"part {number}", lambda: world.do("part", f"{run.id}:part"))
            await run.sleep(60)

        await ends(sim, sim.start_workflow("bug.module"))

    return scenario


@bug
def order_of_branches(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.branches")
        async def race(run: Run, input: dict[str, Any]) -> None:
            ended: list[str] = []

            async def branch(name: str) -> str:
                await run.step(name, lambda: world.do(name, f"{run.id}:{name}"))
                ended.append(name)
                return name

            in_order = await run.gather(branch("a"), branch("b"))
            first = in_order[0] if fixed else ended[0]
            await run.step(f"winner {first}", lambda: world.do("winner", f"{run.id}:winner"))
            await run.sleep(60)

        await ends(sim, sim.start_workflow("bug.branches"))

    return scenario


@bug
def paid_and_canceled(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.timeout")
        async def order(run: Run, input: dict[str, Any]) -> None:
            paid = await run.wait_event("paid", timeout=timedelta(minutes=10))
            if paid is None and (not fixed or await run.step("void", lambda: world.void("paid", "paid"))):
                await run.step("cancel", lambda: world.do("canceled", f"{run.id}:cancel"))

        def pay() -> None:
            if "paid" not in world.keys:
                world.done.append("paid")
                sim.publish_event("paid")

        sim.at_any_time("the customer pays", pay)
        sim.always("not paid and canceled", lambda: not {"paid", "canceled"} <= set(world.done))
        await ends(sim, sim.start_workflow("bug.timeout"))

    return scenario


@bug
def one_person_approves_twice(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.twice")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            people: list[str] = []
            while len(people) < 2:
                approved = await run.wait_event("approved")
                if not fixed or approved["by"] not in people:
                    people.append(approved["by"])
            await run.step("pay", lambda: world.do("pay", f"{run.id}:pay"))

        heard: list[str] = []

        def approve(by: str) -> Callable[[], None]:
            def act() -> None:
                heard.append(by)
                sim.publish_event("approved", {"by": by})

            return act

        run = sim.start_workflow("bug.twice")
        sim.at_any_time("ada approves", approve("ada"), repeats=1)
        sim.at_any_time("bob approves", approve("bob"))
        sim.always("two people approved", lambda: "pay" not in world.done or len(set(heard)) == 2)
        await ends(sim, run)

    return scenario


@bug
def webhook_that_comes_twice(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.hook")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            key = f"order:{input['order']}" if fixed else run.idempotency_key("charge")
            await run.step("charge", lambda: world.do("charge", key))

        sim.at_any_time("the order comes", lambda: sim.start_workflow("bug.hook", {"order": 7}), repeats=1)
        once(sim, world, "charge")
        await sim.run()

    return scenario


@bug
def items_counted_twice(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        @workflow("bug.items")
        async def collect(run: Run, input: dict[str, Any]) -> list[str]:
            items: list[str] = []
            while len(items) < 2:
                item = (await run.wait_event("item"))["name"]
                if not fixed or item not in items:
                    items.append(item)
            return items

        run = sim.start_workflow("bug.items")
        for name in ("pen", "ink"):
            sim.at_any_time(f"{name} comes", lambda name=name: sim.publish_event("item", {"name": name}), repeats=1)
        await ends(sim, run)
        assert sorted(sim.output(run)) == ["ink", "pen"]

    return scenario


@bug
def lost_update(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.balance")
        async def deposit(input: dict[str, Any], ctx: JobContext) -> None:
            if fixed:
                await world.add(10, ctx.idempotency_key)
            else:
                await world.write(await world.read() + 10)

        await ends(sim, *(sim.enqueue("bug.balance") for _ in range(2)))
        assert world.balance == 20, world.balance

    return scenario


@bug
def check_then_act(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.check")
        async def pay(input: dict[str, Any], ctx: JobContext) -> None:
            if not await world.has("charge"):
                await world.do("charge", ctx.idempotency_key if fixed else None)

        once(sim, world, "charge")
        await ends(sim, sim.enqueue("bug.check"))

    return scenario


@bug
def error_that_is_swallowed(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.swallow")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            async def charge() -> None:
                try:
                    await world.do("charge", f"{run.id}:charge")
                except ConnectionError:
                    if fixed:
                        raise

            await run.step("charge", charge)

        run = sim.start_workflow("bug.swallow")
        await ends(sim, run)
        assert "charge" in world.done, "the run succeeded, and nothing was charged"

    return scenario


@bug
def failure_taken_for_nothing_done(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.nothing")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            try:
                await run.step("charge", lambda: world.do("charge", f"{run.id}:charge"), retries=0)
            except StepFailed:
                if not fixed or await run.step("charged?", lambda: world.void("charge", f"{run.id}:charge"), retries=9):
                    await run.step("cancel", lambda: world.do("cancel", f"{run.id}:cancel"), retries=9)

        sim.always("not charged and canceled", lambda: not {"charge", "cancel"} <= set(world.done))
        await ends(sim, sim.start_workflow("bug.nothing"))

    return scenario


@bug
def told_before_it_was_done(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.told")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            names = ["charge", "mail"] if fixed else ["mail", "charge"]
            for name in names:
                await run.step(name, lambda name=name: world.do(name, f"{run.id}:{name}"))  # type: ignore[misc]

        sim.always("who is told has paid", lambda: "mail" not in world.done or "charge" in world.done)
        await ends(sim, sim.start_workflow("bug.told"))

    return scenario


@bug
def expired_taken_for_approved(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.expired")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            decision = await run.approval("pay", title="Pay?", expires=timedelta(hours=1))
            if decision if fixed else decision.status != "rejected":
                await run.step("pay", lambda: world.do("pay", f"{run.id}:pay"))

        run = sim.start_workflow("bug.expired")
        sim.answer_approvals(True)
        sim.always(
            "what is paid was approved",
            lambda: "pay" not in world.done or [approval.status for approval in sim.approvals(run)] == ["approved"],
        )
        await ends(sim, run)

    return scenario


@bug
def failed_child_ignored(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @job("bug.child", max_retries=0)
        async def charge(input: dict[str, Any]) -> None:
            await world.do("charge", input["key"])

        @workflow("bug.parent")
        async def order(run: Run, input: dict[str, Any]) -> None:
            try:
                await run.job("charge", "bug.child", {"key": str(run.id)})
            except StepFailed:
                if fixed:
                    return
            await run.step("ship", lambda: world.do("ship", f"{run.id}:ship"))

        sim.always("what is shipped was paid", lambda: "ship" not in world.done or "charge" in world.done)
        await ends(sim, sim.start_workflow("bug.parent"))

    return scenario


@bug
def second_way_beside_the_first(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.slow-child")
        async def slow(run: Run, input: dict[str, Any]) -> None:
            await run.step("charge", lambda: world.do("charge", input["key"] if fixed else f"{run.id}:slow"))
            await run.wait_event("settled")

        @workflow("bug.second-way")
        async def pay(run: Run, input: dict[str, Any]) -> None:
            key = f"{run.id}:pay"
            try:
                await run.child("slow", "bug.slow-child", {"key": key}, timeout=timedelta(minutes=5))
            except StepFailed:
                await run.step("charge", lambda: world.do("charge", key))

        sim.at_any_time("it settles", lambda: sim.publish_event("settled"))
        once(sim, world, "charge")
        await ends(sim, sim.start_workflow("bug.second-way"))

    return scenario


@bug
def lock_released_while_waiting(fixed: bool) -> Scenario:
    async def scenario(sim: Simulation) -> None:
        world = sim.model(World())

        @workflow("bug.lock")
        async def work(run: Run, input: dict[str, Any]) -> None:
            await run.step("lock", world.lock)
            try:
                await run.sleep(60)
                await run.step("work", lambda: world.do("work", f"{run.id}:work"))
            finally:
                if not fixed:
                    world.locked = False
            if fixed:
                await run.step("unlock", world.unlock)

        sim.always("it works under the lock", lambda: "work" not in world.done or world.locked or fixed)
        await ends(sim, sim.start_workflow("bug.lock"))

    return scenario
