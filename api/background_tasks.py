"""What the process does beside its requests: started here, looked after, and stopped with it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from atlas.logs import get_logger

log = get_logger("api")


class BackgroundTasks:
    """Background tasks. One that fails is told in the log and ends; it takes nothing else along."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin something."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End everything."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a background task of the API failed", exc_info=task.exception())
