"""Holding a job: heartbeats while it is in the host's hands, and the reason to let it go when there is one.

A lease that could not be renewed in time is over, whatever the network does next: Atlas may have given the job away. So
the host measures it from the moment it last asked with success, and stops by itself. Nobody knows how old the answer is
that brought the job, of a machine that slept or a network that was slow: a first renewal comes before the command.
"""

import asyncio
import contextlib
import logging
import time
from enum import StrEnum

from atlas.agent.calls import AssignedJob, HostCalls, is_final
from atlas.client.errors import ApiError, ApiLeaseLost, Unreachable
from atlas.programs.terminal_text import plain

log = logging.getLogger("atlas.agent")

# How often a renewal that failed is tried again at least, and how often progress is told at most.
SOON_SECONDS = 1.0
PROGRESS_SECONDS = 0.5


class Why(StrEnum):
    """Why a command is ended before it ends by itself."""

    LOST = "the lease is lost"
    CANCELED = "the job was canceled"
    TIMEOUT = "its time is over"
    STOPPED = "the agent stops"


class Lease:
    """One job's lease. `over` is set with the first reason to end the command."""

    def __init__(self, calls: HostCalls, job: AssignedJob) -> None:
        self.over: asyncio.Future[Why] = asyncio.get_running_loop().create_future()
        self._calls = calls
        self._job = job
        self._good_until = time.monotonic() + job.lease_seconds
        self._progress: tuple[float, str | None] | None = None
        self._news = asyncio.Event()
        # Set by the first renewal, or by what came instead.
        self._known = asyncio.Event()
        self._tasks = [asyncio.create_task(work) for work in (self._keep(), self._tell())]

    def end(self, why: Why) -> None:
        """Ask for the command's end; the first reason holds."""
        if not self.over.done():
            self.over.set_result(why)
        self._known.set()

    async def is_held(self) -> bool:
        """Wait until Atlas says that the job is in this host's hands; False if there is a reason not to begin."""
        await self._known.wait()
        return not self.over.done()

    async def note(self, percent: float, message: str | None) -> None:
        """Take in how far the command is; the newest is told, when there is time for it."""
        self._progress = (min(100.0, max(0.0, percent)), None if message is None else plain(message))
        self._news.set()

    async def let_go(self) -> None:
        """Renew and tell no more."""
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                log.error("job %s could not be kept to its end", self._job.id, exc_info=ended)

    async def _keep(self) -> None:
        every = self._job.lease_seconds / 3
        pause = 0.0
        try:
            while not self.over.done() or self.over.result() is not Why.LOST:
                await asyncio.sleep(pause)
                pause = every if await self._renewed() else min(every / 4, SOON_SECONDS)
                if time.monotonic() >= self._good_until:
                    self.end(Why.LOST)
        finally:
            # However this ends, nobody renews the lease from now on.
            self.end(Why.LOST)

    async def _renewed(self) -> bool:
        asked = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, self._good_until - asked)):
                canceled = await self._calls.heartbeat(self._job)
        except (ApiError, Unreachable, TimeoutError) as error:
            log.warning("job %s could not be kept: %s", self._job.id, str(error) or "no answer in time")
            if isinstance(error, ApiLeaseLost) or (not isinstance(error, TimeoutError) and is_final(error)):
                self.end(Why.LOST)
            return False
        self._good_until = asked + self._job.lease_seconds
        if canceled:
            self.end(Why.CANCELED)
        self._known.set()
        return True

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            assert self._progress is not None
            # How far it is can wait; the heartbeat notices what matters.
            with contextlib.suppress(ApiError, Unreachable):
                await self._calls.progress(self._job, *self._progress)
            await asyncio.sleep(PROGRESS_SECONDS)
