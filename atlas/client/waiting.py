"""Waiting for a job's end: the live view says when to fetch the job, the job says whether it has ended."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeGuard
from uuid import UUID

from atlas.client.errors import ApiTooManyRequests, Unavailable, Unreachable
from atlas.client.frames import Events, Frame, JobEvent
from atlas.client.models import Job
from atlas.errors import AtlasError
from atlas.waiting import wait_for

FIRST_POLL = 0.2
# How often a job is fetched when no event about it arrives.
LAST_POLL = 2.0


class NotEnded(AtlasError, TimeoutError):
    """A job that was waited for has not ended in time."""

    def __init__(self, job_id: UUID, timeout: float | None) -> None:
        super().__init__(
            f"Job {job_id} has not ended within {timeout:g} s.",
            remedy=f"`atlas jobs explain {job_id}` says what it waits for.",
        )
        self.job_id = job_id


class JobSignals:
    """One live connection for all waiting callers, opened with the first and closed with the last."""

    def __init__(self, live: Callable[[], AsyncIterator[Frame]]) -> None:
        self._live = live
        self._waiting: dict[asyncio.Event, UUID] = {}
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def about(self, job_id: UUID) -> AsyncIterator[asyncio.Event]:
        """An event that is set when something may have happened to the job."""
        changed = asyncio.Event()
        self._waiting[changed] = job_id
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="atlas live")
        try:
            yield changed
        finally:
            del self._waiting[changed]
            task = self._task
            if not self._waiting and task is not None:
                self._task = None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _listen(self) -> None:
        # A caller whose token may not watch polls instead.
        with contextlib.suppress(AtlasError):
            async for frame in self._live():
                named = {one.job_id for one in frame.events if isinstance(one, JobEvent)} if _is_whole(frame) else None
                for changed, job_id in self._waiting.items():
                    if named is None or job_id in named:
                        changed.set()


async def poll_until_ended(fetch: Callable[[], Awaitable[Job]], changed: asyncio.Event) -> Job:
    """Fetch a job after every signal, and now and then, until it has ended. Waits while the API is away."""
    pause = FIRST_POLL
    while True:
        changed.clear()
        with contextlib.suppress(Unreachable, Unavailable, ApiTooManyRequests):
            job = await fetch()
            if job.has_ended:
                return job
        await wait_for(changed, within=pause * random.uniform(0.75, 1.0))
        pause = min(LAST_POLL, pause * 1.5)


def _is_whole(frame: Frame) -> TypeGuard[Events]:
    """True for a frame that lists every event."""
    return isinstance(frame, Events) and not frame.more
