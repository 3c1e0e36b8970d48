"""What a worker holds, and how much more it should ask for.

A worker asks for its free slots, and for as much on top as it is about to finish: a tenth of a second's worth
at its present rate. A fast worker so fetches in large batches, and a slow one holds nothing hostage. A job that was
lost twice runs alone: nothing else is asked for or begun until it has ended.
"""

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

from engine.jobs.outcomes import ClaimedJob

PREFETCH_SECONDS = 0.1
RATE_WINDOW = 0.02
ALONE_AFTER_LOSSES = 2


class Hand:
    """The claimed jobs that have no recorded outcome yet."""

    def __init__(self, slots: int, batch: int) -> None:
        self._slots = slots
        self._batch = batch
        self._jobs: dict[UUID, ClaimedJob] = {}
        self._solo: list[ClaimedJob] = []
        self._alone: ClaimedJob | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self.asked = 0
        self._rate = 0.0
        self._ended = 0
        self._since = time.monotonic()
        self._last_end = self._since

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, job_id: UUID) -> ClaimedJob | None:
        return self._jobs.get(job_id)

    def hold(self, jobs: Sequence[ClaimedJob]) -> list[ClaimedJob]:
        """Take jobs in; answers those that may begin. Jobs that must run alone wait for their moment."""
        self._last_end = time.monotonic()
        for job in jobs:
            self._jobs[job.id] = job
        if jobs:
            self._empty.clear()
        self._solo += [job for job in jobs if job.lost_count >= ALONE_AFTER_LOSSES]
        return [job for job in jobs if job.lost_count < ALONE_AFTER_LOSSES]

    def drop(self, job_id: UUID) -> None:
        """Its outcome is recorded."""
        job = self._jobs.pop(job_id, None)
        if job is not None and job is self._alone:
            self._alone = None
        if not self._jobs:
            self._empty.set()

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait until nothing is held, at most this long."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return

    def next_solo(self) -> ClaimedJob | None:
        """The next job that runs alone, if nothing else is held unfinished now."""
        if not self._solo or self._alone is not None or len(self._jobs) > len(self._solo):
            return None
        self._alone = self._solo.pop(0)
        return self._alone

    def take_solo(self) -> list[ClaimedJob]:
        """The jobs that still wait to run alone; the caller has them again."""
        jobs, self._solo = self._solo, []
        return jobs

    def clear(self) -> None:
        """Nothing is held any more."""
        self._jobs.clear()
        self._solo.clear()
        self._alone = None
        self._empty.set()

    def ended(self) -> None:
        """A job ended; measures the rate."""
        self._ended += 1
        now = time.monotonic()
        self._last_end = now
        passed = now - self._since
        if passed >= RATE_WINDOW:
            self._rate = 0.5 * self._rate + 0.5 * self._ended / passed
            self._ended = 0
            self._since = now

    def waited(self) -> float:
        """How long no job has ended, in seconds."""
        return time.monotonic() - self._last_end

    def room(self, *, leaving: int) -> tuple[int, int]:
        """How many jobs to ask for now: into free slots, and ahead of them. `leaving` have ended; only records lack."""
        if self._solo or self._alone is not None:
            return 0, 0
        taken = max(0, len(self._jobs) - leaving) + self.asked
        free = max(0, self._slots - taken)
        target = self._slots + min(2 * self._batch, int(self._rate * PREFETCH_SECONDS))
        ahead = min(self._batch, target - taken) - free
        return min(free, self._batch), max(0, ahead)
