"""The points at which a simulated worker stops, and what can happen to it there."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from atlas.engine.workflows.steps import step_call
from atlas.testing.simulation.memory import SimulatedJob

R = TypeVar("R")

COMMIT_FAULTS = ("", "is killed before it commits", "is killed after it commits", "freezes before it commits")
CALL_FAULTS = (
    "",
    "is killed before the call",
    "is killed after the call",
    "loses the answer of the call",
    "cannot make the call",
    "freezes before the call",
)
# One that is sent over a connection of the handler, which may break.
LOST_COMMIT = 4
HANDLER_COMMIT_FAULTS = (*COMMIT_FAULTS, "loses the answer of the commit")
KILLED_BEFORE, KILLED_AFTER = 1, 2
NO_ANSWER, NO_CALL = 3, 4


class LostAnswer(ConnectionError):
    """A call of a model that had its effect, or had none: its caller cannot tell."""


class Killed(BaseException):
    """A worker that is killed goes no further. Raised where it cannot simply be left waiting: in plain functions."""


class Commit(Protocol):
    """Does something immediately, as a transaction that commits, with what may happen before and after it."""

    async def __call__(self, what: str, work: Callable[[], R], *, may_lose_answer: bool = False) -> R: ...


@dataclass(slots=True, eq=False)
class SimulatedWorker:
    """A process that claims one job at a time."""

    name: str
    job: SimulatedJob | None = None
    task: asyncio.Task[None] | None = None
    is_dead: bool = False


@dataclass(slots=True, eq=False)
class Turn:
    """A worker that stopped at a point, and goes on when its future is done: with the number of a fault, or 0."""

    worker: SimulatedWorker
    what: str
    faults: tuple[str, ...]
    future: asyncio.Future[int]


@dataclass(slots=True, eq=False)
class OutsideAction:
    """Something that a person or another system does once it can, at any time from then on."""

    name: str
    act: Callable[[], Any]
    can: Callable[[], bool]
    repeats: int


@dataclass(slots=True)
class Invariant:
    """What must always hold."""

    name: str
    check: Callable[[], Any]


# The worker whose attempt a task belongs to.
current_worker: ContextVar[SimulatedWorker | None] = ContextVar("simulated_worker", default=None)


def run_inline(worker: SimulatedWorker) -> None:
    """Say in the task of an attempt whose it is. Plain functions of its steps run immediately."""
    current_worker.set(worker)
    step_call.runs_inline.set(True)
