"""Which cases to run: every point with every fault, or some by a seed."""

from collections.abc import Iterable, Sequence
from random import Random

from tests.faults.points import FAULTS, Case, Point, Strike
from tests.faults.programs import PROGRAMS
from tests.faults.runner import Runner

MAX_FAULTS = 4


def cases_of(
    program: str, points: Sequence[Point], *, faults: Iterable[str] = FAULTS, occurrences: int | None = None
) -> list[Case]:
    """A case for each fault at each point, or at the first executions of each statement."""
    chosen = [point for point in points if occurrences is None or point.occurrence <= occurrences]
    return [Case(program, (Strike(fault, point),)) for point in chosen for fault in faults]


def one_fault_each(
    program: str, points: Sequence[Point], seed: int, most: int | None = None, *, samples: int = 1
) -> list[Case]:
    """A case for each statement, or for `most` of them: its first execution, with a fault that the seed chooses.

    With more `samples` also for as many of its other executions, which the seed chooses too.
    """
    firsts = [point for point in points if point.occurrence == 1]
    if most is not None and most < len(firsts):
        firsts = Random(seed).sample(sorted(firsts), most)
    chosen = []
    for first in firsts:
        others = [point for point in points if point.statement == first.statement and point != first]
        chosen += [first, *Random(f"{seed} {first}").sample(others, min(len(others), samples - 1))]
    return [Case(program, (Strike(Random(f"{seed} {point}").choice(sorted(FAULTS)), point),)) for point in chosen]


async def several_faults(runner: Runner, seed: int) -> Case:
    """Several faults of one program. The statements are chosen by their names, so that their order does not matter."""
    dice = Random(seed)
    program = dice.choice(sorted(PROGRAMS))
    points = sorted((await runner.count(program)).points)
    count = min(len(points), dice.randint(2, MAX_FAULTS))
    return Case(program, tuple(Strike(dice.choice(sorted(FAULTS)), point) for point in dice.sample(points, count)))
