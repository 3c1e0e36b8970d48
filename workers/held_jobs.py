"""What a worker holds, and how much more it should ask for.

A worker asks for its free slots, and for as much on top as it is about to finish: a tenth of a second's worth
at its present rate. A fast worker so fetches in large batches, and a slow one holds nothing hostage. A job that was
lost twice runs alone: it is asked for when nothing is held, and nothing else is until it has ended. For such a job a
worker holds back, a while at a time: between the whiles, which grow, it asks once for what else there is.
"""

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

from atlas.engine.jobs.claim import ClaimedJob
from atlas.waiting import wait_for

PREFETCH_SECONDS = 0.1
RATE_WINDOW = 0.02
HOLD_BACK_SECONDS = 5.0
LONGEST_HOLD_BACK = 600.0


class HeldJobs:
    """The claimed jobs that have no recorded outcome yet."""

    def __init__(self, slots: int, batch: int) -> None:
        self._slots = slots
        self._batch = batch
        self._jobs: dict[UUID, ClaimedJob] = {}
        self._alone: ClaimedJob | None = None
        # A job waits that this worker may only ask for with empty hands; it asks for nothing else until so long.
        self.solo_waits = False
        self._holds_back_until = 0.0
        self._next_hold_back = HOLD_BACK_SECONDS
        self._empty = asyncio.Event()
        self._empty.set()
        self.asked = 0
        # Slots that are not free although the job they run is not held any more.
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
            if jobs[0].must_run_alone:
                self._alone = jobs[0]
                self.stop_holding_back()

    def drop(self, job_id: UUID) -> None:
        """Its outcome is recorded."""
        job = self._jobs.pop(job_id, None)
        if job is not None and job is self._alone:
            self._alone = None
        if not self._jobs:
            self._empty.set()

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait until nothing is held, at most this long."""
        await wait_for(self._empty, within=seconds)

    def clear(self) -> None:
        """Nothing is held any more."""
        self._jobs.clear()
        self._alone = None
        self.solo_waits = False
        self._empty.set()

    def tell_of_solo(self, *, waits: bool) -> None:
        """A job that must run alone waits, or none was seen."""
        now = time.monotonic()
        if waits and now >= self._holds_back_until:
            if now >= self._holds_back_until + LONGEST_HOLD_BACK:
                self._next_hold_back = HOLD_BACK_SECONDS
            self._holds_back_until = now + self._next_hold_back
            self._next_hold_back = min(LONGEST_HOLD_BACK, 2 * self._next_hold_back)
        self.solo_waits = waits

    def stop_holding_back(self) -> None:
        """Nothing waits that must run alone."""
        self.solo_waits = False
        self._holds_back_until = 0.0
        self._next_hold_back = HOLD_BACK_SECONDS

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
        if self._alone is not None:
            return 0, 0
        if self.solo_waits and (self._jobs or self.asked) and time.monotonic() < self._holds_back_until:
            return 0, 0
        taken = max(0, len(self._jobs) - leaving) + self.asked + self.lingering
        free = max(0, self._slots - taken)
        target = self._slots + min(2 * self._batch, int(self._rate * PREFETCH_SECONDS))
        ahead = min(self._batch, target - taken) - free
        return min(free, self._batch), max(0, ahead)
