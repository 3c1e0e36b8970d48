"""What a worker holds, and how much more it should ask for.

A worker asks for its free slots, and for as much on top as it is about to finish: a tenth of a second's worth
at its present rate. A fast worker so fetches in large batches, and a slow one holds nothing hostage. A job that was
lost twice runs alone: it is asked for when nothing is held, and nothing else is until it has ended.
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
        self._alone: ClaimedJob | None = None
        # A job waits that this worker may only ask for with empty hands; until then it asks for nothing.
        self.solo_waits = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.asked = 0
        # Slots that are not free although the job they ran has ended.
        self.lingering = 0
        self._rate = 0.0
        self._ended = 0
        self._since = time.monotonic()
        self._last_move = self._since

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def runs_alone(self) -> bool:
        """True while the one job in hand is one that must run alone."""
        return self._alone is not None

    @property
    def jobs(self) -> list[ClaimedJob]:
        return list(self._jobs.values())

    def get(self, job_id: UUID) -> ClaimedJob | None:
        return self._jobs.get(job_id)

    def hold(self, jobs: Sequence[ClaimedJob]) -> None:
        """Take jobs in. One that must run alone comes by itself."""
        if jobs and len(self._jobs) < self._slots:
            # Some begin at once; what comes ahead of its slot is no sign that anything moves.
            self._last_move = time.monotonic()
        for job in jobs:
            self._jobs[job.id] = job
        if jobs:
            self._empty.clear()
            if jobs[0].lost_count >= ALONE_AFTER_LOSSES:
                self._alone = jobs[0]

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

    def clear(self) -> None:
        """Nothing is held any more."""
        self._jobs.clear()
        self._alone = None
        self.solo_waits = False
        self._empty.set()

    def ended(self) -> None:
        """A job ended; measures the rate."""
        self._ended += 1
        now = time.monotonic()
        self._last_move = now
        passed = now - self._since
        if passed >= RATE_WINDOW:
            self._rate = 0.5 * self._rate + 0.5 * self._ended / passed
            self._ended = 0
            self._since = now

    def forget_the_rate(self) -> None:
        """What was fetched ahead had to wait: until jobs end again, ask for free slots alone."""
        self._rate = 0.0
        self._ended = 0
        self._since = time.monotonic()

    def waited(self) -> float:
        """How long no job has ended or begun, in seconds."""
        return time.monotonic() - self._last_move

    def room(self, *, leaving: int) -> tuple[int, int]:
        """How many jobs to ask for now: into free slots, and ahead of them. `leaving` have ended; only records lack."""
        if self._alone is not None or (self.solo_waits and (self._jobs or self.asked)):
            return 0, 0
        taken = max(0, len(self._jobs) - leaving) + self.asked + self.lingering
        free = max(0, self._slots - taken)
        target = self._slots + min(2 * self._batch, int(self._rate * PREFETCH_SECONDS))
        ahead = min(self._batch, target - taken) - free
        return min(free, self._batch), max(0, ahead)
