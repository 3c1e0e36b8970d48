"""The lease of a job: heartbeats while the host holds it, and the reason to stop the command when there is one.

A lease that was not renewed in time has expired, whatever the network does next: Atlas may have given the job to
another worker. So the host measures it from the start of its last successful heartbeat, and stops by itself. The
response that brought the job may be old, on a machine that slept or a slow network, so a first heartbeat comes before
the command.
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

# The longest pause after a failed renewal, and the shortest between two reports of progress.
RETRY_SECONDS = 1.0
PROGRESS_SECONDS = 0.5


class StopReason(StrEnum):
    """Why a command is stopped before it ends by itself."""

    LOST = "the lease is lost"
    CANCELED = "the job was canceled"
    TIMEOUT = "its time is over"
    STOPPED = "the agent stops"


class Lease:
    """One job's lease. `over` is set with the first reason to stop the command."""

    def __init__(self, calls: HostCalls, job: AssignedJob) -> None:
        self.over: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        self._calls = calls
        self._job = job
        self._good_until = time.monotonic() + job.lease_seconds
        self._progress: tuple[float, str | None] | None = None
        self._has_progress = asyncio.Event()
        # Set by the first renewal, or by a reason to stop.
        self._decided = asyncio.Event()
        self._tasks = [asyncio.create_task(work) for work in (self._renew(), self._report())]

    def stop(self, reason: StopReason) -> None:
        """Ask for the command to stop; the first reason counts."""
        if not self.over.done():
            self.over.set_result(reason)
        self._decided.set()

    async def is_held(self) -> bool:
        """Wait until Atlas confirms that the host holds the job; False if there is a reason not to start."""
        await self._decided.wait()
        return not self.over.done()

    async def note(self, percent: float, message: str | None) -> None:
        """Note the progress of the command; the newest is reported when the last report has ended."""
        self._progress = (min(100.0, max(0.0, percent)), None if message is None else plain(message))
        self._has_progress.set()

    async def release(self) -> None:
        """Stop the heartbeats and reports."""
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                log.error("the heartbeats of job %s failed", self._job.id, exc_info=ended)

    async def _renew(self) -> None:
        every = self._job.lease_seconds / 3
        pause = 0.0
        try:
            while not self.over.done() or self.over.result() is not StopReason.LOST:
                await asyncio.sleep(pause)
                pause = every if await self._renewed() else min(every / 4, RETRY_SECONDS)
                if time.monotonic() >= self._good_until:
                    self.stop(StopReason.LOST)
        finally:
            # However this task ends, the lease is no longer renewed.
            self.stop(StopReason.LOST)

    async def _renewed(self) -> bool:
        asked = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, self._good_until - asked)):
                canceled = await self._calls.heartbeat(self._job)
        except (ApiError, Unreachable, TimeoutError) as error:
            log.warning("no heartbeat for job %s: %s", self._job.id, str(error) or "no response in time")
            if isinstance(error, ApiLeaseLost) or (not isinstance(error, TimeoutError) and is_final(error)):
                self.stop(StopReason.LOST)
            return False
        self._good_until = asked + self._job.lease_seconds
        if canceled:
            self.stop(StopReason.CANCELED)
        self._decided.set()
        return True

    async def _report(self) -> None:
        while True:
            await self._has_progress.wait()
            self._has_progress.clear()
            assert self._progress is not None
            # A lost report does no harm; the heartbeat notices what matters.
            with contextlib.suppress(ApiError, Unreachable):
                await self._calls.progress(self._job, *self._progress)
            await asyncio.sleep(PROGRESS_SECONDS)
