"""A capability of the mix: some work, what happens beside it, and what must hold for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atlas.engine.jobs.handlers.context import JobContext
from tests.faults.effects import note
from tests.faults.judge import Law
from tests.workers.start_clock import started_at

# What runs beside the programs: given the address of the database and the folder of the case.
Beside = Callable[[str, Path], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Capability:
    """Some work for the programs, and what must hold for it."""

    name: str
    give: Callable[[Any], Awaitable[None]]
    laws: tuple[Law, ...] = ()
    beside: Beside | None = None
    # The job types of its handlers.
    types: tuple[str, ...] = ()
    # A query: whether everything that follows from its work exists. It is done when all jobs have finished then.
    done: str = "select true"
    # It needs a scheduler or an API beside the workers, and is part of storms alone.
    needs_installation: bool = False


def runs_of(count: int, *workflows: str) -> str:
    """A query: whether these workflows have so many runs."""
    names = ", ".join(f"'{workflow}'" for workflow in workflows)
    return f"select count(*) = {count} from atlas.jobs where input::jsonb->>'workflow' in ({names})"


def all_done(capabilities: Sequence[Capability]) -> str:
    """A query: whether all jobs have finished, and none will follow."""
    conditions = " and ".join(f"({capability.done})" for capability in capabilities)
    return f"select not exists (select from atlas.jobs where status in ('queued', 'running')) and {conditions}"


def types_of(capabilities: Sequence[Capability]) -> str:
    """The job types that a worker of these capabilities serves."""
    return ",".join(dict.fromkeys(name for capability in capabilities for name in capability.types))


class Marked:
    """The start and end of a handler in the effect log, for each job that it is called for."""

    def __init__(self, kind: str, *contexts: JobContext, key: str = "") -> None:
        self._facts: list[dict[str, Any]] = [
            {"kind": kind, "job_id": str(ctx.job_id), "attempt": ctx.attempt, "key": key} for ctx in contexts
        ]

    async def __aenter__(self) -> None:
        at = started_at()
        for facts in self._facts:
            note("start", at=at, **facts)
        await asyncio.sleep(0.01)

    async def __aexit__(self, *_: object) -> None:
        for facts in self._facts:
            note("end", **facts)


@asynccontextmanager
async def beside_all(capabilities: Sequence[Capability], url: str, folder: Path) -> AsyncIterator[None]:
    """What runs beside all of these."""
    async with AsyncExitStack() as running:
        for capability in capabilities:
            if capability.beside is not None:
                await running.enter_async_context(capability.beside(url, folder))
        yield
