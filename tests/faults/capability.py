"""A capability of the mix: some work, what happens beside it, and what must hold for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atlas.engine.jobs.context import JobContext
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
    # It needs a scheduler beside the workers, and is part of storms alone.
    is_scheduled: bool = False


class Marked:
    """A handler's start and end in the effect log."""

    def __init__(self, ctx: JobContext, kind: str, key: str = "") -> None:
        self._facts: dict[str, Any] = {"kind": kind, "job_id": str(ctx.job_id), "attempt": ctx.attempt, "key": key}

    async def __aenter__(self) -> None:
        note("start", at=started_at(), **self._facts)
        await asyncio.sleep(0.01)

    async def __aexit__(self, *_: object) -> None:
        note("end", **self._facts)


@asynccontextmanager
async def beside_all(capabilities: Sequence[Capability], url: str, folder: Path) -> AsyncIterator[None]:
    """What runs beside all of these."""
    async with AsyncExitStack() as running:
        for capability in capabilities:
            if capability.beside is not None:
                await running.enter_async_context(capability.beside(url, folder))
        yield
