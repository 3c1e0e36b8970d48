"""`batch_()`: writes that are collected first and then made in one transaction."""

from collections.abc import Awaitable, Callable
from typing import Any

from atlas.generated import Prisma
from atlas.generated.client import Batch

Queued = list[dict[str, Any]]


class WriteBatch(Batch):
    """Collects calls; `commit`, or the end of its block, makes all of them or none."""

    def __init__(self, client: Prisma, execute: Callable[[Queued], Awaitable[None]]) -> None:
        super().__init__(client)
        self._execute = execute
        self._queued: Queued = []

    def _add(self, **call: Any) -> None:
        self._queued.append(call)

    async def commit(self) -> None:
        """Make the writes collected so far."""
        queued, self._queued = self._queued, []
        await self._execute(queued)
