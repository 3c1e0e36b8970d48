"""How many jobs a worker asks for.

It asks for its free slots and a prefetch on top. A job that must run alone is asked for when the worker holds nothing,
and nothing else is asked for until it has ended. While such a job waits, the worker lets its other jobs end without
asking for more. It does so for a limited time, then asks once, then waits again, each time longer.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from atlas.engine.jobs.claim import ClaimedJob
from atlas.workers.claims.held_jobs import HeldJobs
from atlas.workers.claims.prefetch import Prefetch

HOLD_BACK_SECONDS = 5.0
MAX_HOLD_BACK_SECONDS = 600.0


class Request(NamedTuple):
    """How many jobs one call asks for: for free slots, and ahead of them.

    `alone`: nothing else is held or asked for, so a job that must run alone may be claimed.
    """

    slots: int = 0
    prefetch: int = 0
    alone: bool = False

    @property
    def jobs(self) -> int:
        return self.slots + self.prefetch


NO_JOBS = Request()


class InFlight:
    """The calls that wait for the database: what they record and what they ask for."""

    def __init__(self) -> None:
        self.calls = 0
        self.finishes = 0
        self.jobs = 0
        self.alone = False

    def sent(self, request: Request, *, finishes: int) -> None:
        self.calls += 1
        self.finishes += finishes
        self.jobs += request.jobs
        self.alone = self.alone or request.alone

    def returned(self, request: Request, *, finishes: int) -> None:
        self.calls -= 1
        self.finishes -= finishes
        self.jobs -= request.jobs
        self.alone = self.alone and not request.alone


class SoloJobs:
    """Whether a job that must run alone waits, and until when the worker asks for nothing else because of it."""

    def __init__(self) -> None:
        self.is_waiting = False
        self._hold_back_until = 0.0
        self._next_hold_back = HOLD_BACK_SECONDS

    @property
    def holds_back(self) -> bool:
        return self.is_waiting and time.monotonic() < self._hold_back_until

    def seen(self, *, waiting: bool) -> None:
        """Note whether a claim saw one waiting."""
        now = time.monotonic()
        if waiting and now >= self._hold_back_until:
            if now >= self._hold_back_until + MAX_HOLD_BACK_SECONDS:
                self._next_hold_back = HOLD_BACK_SECONDS
            self._hold_back_until = now + self._next_hold_back
            self._next_hold_back = min(MAX_HOLD_BACK_SECONDS, 2 * self._next_hold_back)
        self.is_waiting = waiting

    def none_waits(self) -> None:
        """Stop holding back."""
        self.is_waiting = False
        self._hold_back_until = 0.0
        self._next_hold_back = HOLD_BACK_SECONDS


class Demand:
    """Decides what the next call asks for."""

    def __init__(self, slots: int, batch: int, held: HeldJobs) -> None:
        self._slots = slots
        self._batch = batch
        self.held = held
        self.prefetch = Prefetch()
        self.solo = SoloJobs()
        self.in_flight = InFlight()
        # Slots that are taken although the job they run is not held any more.
        self.occupied_slots = 0
        # False once a claim found less than it asked for, until the next hint.
        self.may_find_jobs = True
        # Counts the hints. A claim that was sent before a hint does not speak for what came after it.
        self.hints = 0

    def hint(self) -> None:
        """There may be something to claim."""
        self.may_find_jobs = True
        self.hints += 1

    def found_too_few(self, *, hints: int) -> None:
        """A claim that was sent after this number of hints did not find all the jobs that it requested."""
        if hints == self.hints:
            self.may_find_jobs = False

    def taken(self, jobs: Sequence[ClaimedJob], *, solo_waits: bool) -> None:
        """Hold what a claim brought."""
        self.solo.seen(waiting=solo_waits)
        if jobs:
            if len(self.held) < self._slots:
                # Some begin immediately. A job that was prefetched is no sign of progress.
                self.prefetch.job_began()
            if jobs[0].must_run_alone:
                self.solo.none_waits()
        self.held.add(jobs)

    @property
    def has_room_ahead(self) -> bool:
        """True when a job that is claimed beside the calls in flight begins soon, because those before it end fast."""
        is_kept_free = self.in_flight.alone or self.held.has_solo_job or self.solo.holds_back
        return self.prefetch.size > 0 and not is_kept_free

    def request(self, *, ended: int) -> Request:
        """What to ask for now. So many of the held jobs have ended and only wait to be recorded."""
        alone = len(self.held) == 0 and self.in_flight.jobs == 0
        if not self.may_find_jobs or self.in_flight.alone or self.held.has_solo_job:
            return NO_JOBS
        if self.solo.holds_back and not alone:
            return NO_JOBS
        taken = max(0, len(self.held) - ended) + self.in_flight.jobs + self.occupied_slots
        free = max(0, self._slots - taken)
        target = self._slots + min(2 * self._batch, self.prefetch.size)
        ahead = min(self._batch, target - taken) - free
        request = Request(min(free, self._batch), max(0, ahead), alone)
        return request if request.jobs else NO_JOBS
