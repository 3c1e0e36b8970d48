"""Waiting for a job's end: the live view says when to look, looking says whether it has ended."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeGuard
from uuid import UUID

from atlas.client.errors import TooManyRequests, Unavailable, Unreachable
from atlas.client.frames import Events, Frame, JobEvent
from atlas.client.models import Job
from atlas.errors import AtlasError
from atlas.waiting import wait_for

FIRST_LOOK = 0.2
# How often a job is looked at when nothing is heard of it.
LAST_LOOK = 2.0


class NotEnded(AtlasError, TimeoutError):
    """A job that was waited for has not ended in time."""

    def __init__(self, job_id: UUID, timeout: float | None) -> None:
        super().__init__(
            f"Job {job_id} has not ended within {timeout:g} s.",
            remedy=f"`atlas jobs explain {job_id}` says what it waits for.",
        )
        self.job_id = job_id


class Bells:
    """One live connection for all who wait, opened with the first and closed with the last."""

    def __init__(self, live: Callable[[], AsyncIterator[Frame]]) -> None:
        self._live = live
        self._waiting: dict[asyncio.Event, UUID] = {}
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def about(self, job_id: UUID) -> AsyncIterator[asyncio.Event]:
        """A bell that rings when something may have happened to the job."""
        bell = asyncio.Event()
        self._waiting[bell] = job_id
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="atlas live")
        try:
            yield bell
        finally:
            del self._waiting[bell]
            task = self._task
            if not self._waiting and task is not None:
                self._task = None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _listen(self) -> None:
        # Whoever may not watch, or cannot, looks now and then instead.
        with contextlib.suppress(AtlasError):
            async for frame in self._live():
                told = {one.job_id for one in frame.events if isinstance(one, JobEvent)} if _is_whole(frame) else None
                for bell, job_id in self._waiting.items():
                    if told is None or job_id in told:
                        bell.set()


async def look_until_ended(look: Callable[[], Awaitable[Job]], bell: asyncio.Event) -> Job:
    """Look at a job at every ring, and now and then, until it has ended. An API that is away is waited for."""
    pause = FIRST_LOOK
    while True:
        bell.clear()
        with contextlib.suppress(Unreachable, Unavailable, TooManyRequests):
            job = await look()
            if job.has_ended:
                return job
        await wait_for(bell, within=pause * random.uniform(0.75, 1.0))
        pause = min(LAST_LOOK, pause * 1.5)


def _is_whole(frame: Frame) -> TypeGuard[Events]:
    """True for a frame that tells everything one by one."""
    return isinstance(frame, Events) and not frame.more
