"""Branches: parts of a run that go on side by side, each with its own count of steps."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.workflows.errors import StepFailed, Suspended


class Branch:
    """A sequence of steps: the run's own, or one that `gather` began."""

    __slots__ = ("at_work", "is_side", "names", "path", "position", "suspended")

    def __init__(self, path: str, *, is_side: bool = False) -> None:
        self.path = path
        self.position = 0
        self.names: dict[str, int] = {}
        # What it is doing now: a branch does one thing at a time.
        self.at_work: str | None = None
        self.is_side = is_side
        self.suspended = False

    def unique(self, name: str) -> str:
        """The name, with a number from its second use in this branch on."""
        used = self.names.get(name, 0) + 1
        self.names[name] = used
        return numbered(name, used)

    def next_use(self, name: str) -> str:
        """The name of the step that is at work under this name, or comes next."""
        used = self.names.get(name, 0)
        return numbered(name, used if self.at_work == name else used + 1)

    def begin(self, name: str) -> None:
        """Begin a step. Two at once would be counted in random order, and are refused."""
        if self.at_work is not None:
            raise PermanentError(
                f"{name!r} began while {self.at_work!r} was not done.",
                remedy="Await the steps of a run one after another, or put them side by side with run.gather(…).",
            )
        self.at_work = name


def numbered(name: str, used: int) -> str:
    """The name of the first, second, … step of a name."""
    return name if used == 1 else f"{name}#{used}"


# The branch that the running task works in; none means the run's own sequence.
current: contextvars.ContextVar[Branch | None] = contextvars.ContextVar("atlas_branch", default=None)


async def side_by_side(branches: Sequence[Branch], work: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run each piece of work in its branch until all have ended or wait; their results in order.

    If one waits, the whole waits (Suspended). Otherwise the first error in order is raised, and knows of the other
    failed steps. No branch is stopped because another failed.
    """
    tasks = [_start(branch, work_item) for branch, work_item in zip(branches, work, strict=True)]
    try:
        if tasks:
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    errors = [error for task in tasks if (error := _error_of(task)) is not None]
    if any(branch.suspended for branch in branches) or any(isinstance(error, Suspended) for error in errors):
        raise Suspended
    if errors:
        raise _first(errors)
    return [task.result() for task in tasks]


def _start(branch: Branch, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
    context = contextvars.copy_context()
    context.run(current.set, branch)

    async def run() -> Any:
        return await work()

    return asyncio.get_running_loop().create_task(run(), context=context)


def _error_of(task: asyncio.Task[Any]) -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def _first(errors: list[BaseException]) -> BaseException:
    """What is not an Exception comes before all others."""
    grave = next((error for error in errors if not isinstance(error, Exception)), None)
    if grave is not None:
        return grave
    first = errors[0]
    if isinstance(first, StepFailed):
        for other in errors[1:]:
            if isinstance(other, StepFailed):
                first.spots += other.spots
    return first
