"""Explores schedules of a test: first every single deviation from the usual one, then many drawn from seeds.

A failure is shrunk to the fewest choices that still fail, and reported with what happened and a test that repeats it.
"""

import asyncio
import functools
import inspect
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from atlas.engine.jobs.verdicts import describe
from atlas.testing.simulation.attempts import run_attempt
from atlas.testing.simulation.schedule import Schedule
from atlas.testing.simulation.simulation import Simulation
from atlas.testing.simulation.virtual_loop import VirtualLoop

DEFAULT_SCHEDULES = 200
START = datetime(2026, 1, 1, 9, tzinfo=UTC)
# The shares of deviations that are drawn in turn.
SHARES = (0.05, 0.1, 0.2, 0.4)
MAX_SHRINKS = 500

Scenario = Callable[..., Awaitable[None]]
# What `pytest --atlas-sim=N` says.
chosen_schedules: int | None = None


class SimulationFailed(AssertionError):
    """A schedule in which the test fails."""

    def __init__(self, message: str, choices: Mapping[int, int]) -> None:
        super().__init__(message)
        self.choices = dict(choices)


@dataclass(slots=True)
class Outcome:
    """What became of one schedule."""

    schedule: Schedule
    error: BaseException | None
    trace: list[str]


def simulate(schedules: int | Callable[..., Any] = DEFAULT_SCHEDULES) -> Any:
    """Make a pytest test of an async function that takes `sim`: it runs once in each of `schedules` schedules.

    `pytest --atlas-sim=N` says for all tests how many. Other parameters are fixtures.
    """

    def decorate(scenario: Scenario) -> Callable[..., None]:
        @functools.wraps(scenario)
        def test(**fixtures: Any) -> None:
            explore(scenario, count if chosen_schedules is None else chosen_schedules, **fixtures)

        signature = inspect.signature(scenario)
        kept = [parameter for name, parameter in signature.parameters.items() if name != "sim"]
        test.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return test

    if callable(schedules):
        count = DEFAULT_SCHEDULES
        return decorate(schedules)
    count = schedules
    return decorate


def explore(scenario: Scenario, schedules: int = DEFAULT_SCHEDULES, **fixtures: Any) -> None:
    """Run the scenario in up to `schedules` schedules. Raises SimulationFailed for the first that fails, shrunk."""
    with virtual_time() as on_time:
        run = functools.partial(simulate_once, scenario, fixtures, on_time)
        for number, schedule in enumerate(_schedules(run, schedules), 1):
            outcome = run(schedule)
            if outcome.error is not None:
                choices = _shrink(run, schedule.taken, outcome.error)
                last = run(Schedule(choices), is_traced=True)
                raise SimulationFailed(_report(scenario, number, choices, last), choices) from last.error


def replay_schedule(test: Callable[..., Any], choices: Mapping[int, int], **fixtures: Any) -> None:
    """Run one schedule of a test that `simulate` decorates, as its failure printed it."""
    scenario: Scenario = inspect.unwrap(test)
    with virtual_time() as on_time:
        outcome = simulate_once(scenario, fixtures, on_time, Schedule(choices), is_traced=True)
    if outcome.error is not None:
        raise SimulationFailed(_report(scenario, 1, choices, outcome), choices) from outcome.error


def _schedules(run: Callable[[Schedule], Outcome], count: int) -> Iterator[Schedule]:
    """The usual schedule, then each of those with one other choice, then drawn ones. Long lists are thinned out."""
    usual = Schedule()
    yield usual
    single = [(point, choice) for point, options in enumerate(usual.options) for choice in range(1, options)]
    most = max(1, count * 2 // 3)
    step = max(1, -(-len(single) // most))
    for point, choice in single[::step][: count - 1]:
        yield Schedule({point: choice})
    for seed in range(max(0, count - 1 - len(single[::step]))):
        yield Schedule(seed=seed, share=SHARES[seed % len(SHARES)])


def simulate_once(
    scenario: Scenario,
    fixtures: Mapping[str, Any],
    on_time: Callable[[datetime], None],
    schedule: Schedule,
    *,
    is_traced: bool = False,
) -> Outcome:
    """Run one schedule of a scenario."""
    state = random.getstate()
    random.seed(0)
    simulation: Simulation | None = None
    loop = VirtualLoop(lambda seconds: simulation.idle(seconds) if simulation is not None else None)
    simulation = Simulation(schedule, loop, START, run_attempt, is_traced=is_traced, on_time=on_time)
    on_time(START)
    error: BaseException | None = None
    try:
        loop.run_until_complete(_in_task(scenario(sim=simulation, **fixtures)))
    except Exception as raised:
        error = raised
    finally:
        simulation.is_over = True
        _drop_tasks(loop)
        loop.close()
        random.setstate(state)
    return Outcome(schedule, error, simulation.trace)


async def _in_task(scenario: Awaitable[None]) -> None:
    await scenario


def _drop_tasks(loop: VirtualLoop) -> None:
    """Close what was killed or still waits. The schedule is over: nothing it does now counts."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine = task.get_coro()
        if inspect.iscoroutine(coroutine):
            with suppress(BaseException):
                coroutine.close()


@contextmanager
def virtual_time() -> Iterator[Callable[[datetime], None]]:
    """Let `datetime.now()` and `time.time()` follow the virtual clock, where time-machine is installed."""
    try:
        import time_machine
    except ImportError:
        yield lambda _now: None
        return
    traveler = time_machine.travel(START, tick=False)
    clock, shown = traveler.start(), START

    def show(now: datetime) -> None:
        nonlocal shown
        # Moved by a difference: for a time with a zone, the C library would read the zone anew.
        clock.shift(now - shown)
        shown = now

    try:
        yield show
    finally:
        traveler.stop()


def _shrink(run: Callable[[Schedule], Outcome], choices: Mapping[int, int], error: BaseException) -> dict[int, int]:
    """The fewest choices that fail in the same way: runs of them are left out, then each alone."""
    kept, tries = dict(choices), 0
    size = max(1, len(kept) // 2)
    while kept and tries < MAX_SHRINKS:
        points, shrunk = sorted(kept), False
        for begin in range(0, len(points), size):
            left_out = points[begin : begin + size]
            tried = {point: choice for point, choice in kept.items() if point not in left_out}
            outcome, tries = run(Schedule(tried)), tries + 1
            if outcome.error is not None and _kind(outcome.error) == _kind(error):
                kept, shrunk = tried, True
                break
        if not shrunk and size == 1:
            break
        if not shrunk:
            size = max(1, size // 2)
    return kept


def _kind(error: BaseException) -> tuple[type, str]:
    return type(error), str(error).partition(":")[0]


def _report(scenario: Scenario, number: int, choices: Mapping[int, int], outcome: Outcome) -> str:
    name = getattr(scenario, "__name__", "scenario")
    module = getattr(scenario, "__module__", "tests")
    events = "\n".join(f"  {line}" for line in outcome.trace)
    reason = describe(outcome.error) if outcome.error is not None else "it does not fail any more"
    fixtures = [name for name in inspect.signature(scenario).parameters if name != "sim"]
    given = "".join(f", {name}={name}" for name in fixtures)
    return (
        f"{reason}\n\nFound in schedule {number}. Deviations from the usual order: {len(choices)}. What happened:"
        f"\n\n{events}\n\nRepeat it:\n\n"
        f"import {module}\nfrom atlas.testing import replay_schedule\n\n\n"
        f"def {name}_again({', '.join(fixtures)}):\n    replay_schedule({module}.{name}, {dict(choices)!r}{given})\n"
    )
