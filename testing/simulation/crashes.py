"""Crashes everywhere: a job or a workflow, killed once before and once after each of its commits and calls."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from atlas.engine.workflows.registry import registered_workflows
from atlas.testing.simulation.explore import simulate_once, virtual_time
from atlas.testing.simulation.points import KILLED_AFTER, KILLED_BEFORE
from atlas.testing.simulation.schedule import Schedule
from atlas.testing.simulation.simulation import Simulation

# Sets up what the code under test calls, and returns the effects: a collection that its models fill.
SetUp = Callable[[Simulation], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class CrashFinding:
    """A crash after which something happened twice, or never, or the work did not end as it does without one."""

    crash: str
    twice: list[Any]
    never: list[Any]
    status: str

    def __str__(self) -> str:
        parts = [f"twice: {effect}" for effect in self.twice] + [f"never: {effect}" for effect in self.never]
        return f"{self.crash}: {', '.join([*parts, f'it ends as {self.status}'])}"


def crash_everywhere(target: str, input: Mapping[str, Any] | None, set_up: SetUp) -> list[CrashFinding]:
    """Run a job type or a workflow with a crash at each point, and return what went wrong; nothing, if all is well.

    `set_up` gets the simulation, puts models in place (`sim.model`), and returns the list of effects that they keep.
    """
    with virtual_time() as on_time:

        def run(choices: Mapping[int, int]) -> "_Ended":
            return _run(target, input, set_up, on_time, Schedule(choices))

        usual = run({})
        crashes = [(point, choice) for point in usual.schedule.faults for choice in (KILLED_BEFORE, KILLED_AFTER)]
        ended = [run({point: choice}) for point, choice in crashes]
    findings = [_compare(usual, ending) for ending in ended]
    return [finding for finding in findings if finding is not None]


@dataclass(frozen=True, slots=True)
class _Ended:
    schedule: Schedule
    effects: Counter[Any]
    status: str
    crash: str


def _run(
    target: str, input: Mapping[str, Any] | None, set_up: SetUp, on_time: Callable[[Any], None], schedule: Schedule
) -> _Ended:
    ended: list[tuple[Counter[Any], str]] = []

    async def scenario(sim: Simulation) -> None:
        effects = set_up(sim)
        started = (sim.start_workflow if target in registered_workflows() else sim.enqueue)(target, input)
        await sim.run()
        ended.append((Counter(effects), sim.status(started)))

    outcome = simulate_once(scenario, {}, on_time, schedule, is_traced=True)
    if outcome.error is not None:
        raise outcome.error
    [(effects, status)] = ended
    killed = next((line for line in outcome.trace if " is killed " in line), "")
    return _Ended(schedule, effects, status, killed.partition(" ")[2])


def _compare(usual: _Ended, ended: _Ended) -> CrashFinding | None:
    twice = list((ended.effects - usual.effects).elements())
    never = list((usual.effects - ended.effects).elements())
    if not twice and not never and ended.status == usual.status:
        return None
    return CrashFinding(ended.crash, twice, never, ended.status)
