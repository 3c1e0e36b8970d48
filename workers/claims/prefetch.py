"""How many jobs to claim ahead of the free slots: a tenth of a second's worth at the worker's present rate.

A fast worker therefore claims in large batches, and a slow one keeps no job from other workers. Where tenants compete,
prefetched jobs stand before the next job of a tenant that has waited longer, and shares are less exact the more there
are. So the prefetch is smaller there the longer jobs take: a call is worth its cost only where many jobs end in
the time that it takes. It is larger where more tenants compete: a claim looks at each of them, so that a small one
costs more for each job.
"""

import time

PREFETCH_SECONDS = 0.1
# Where few tenants compete, a worker that ends this many jobs a second prefetches for one second, at most as long as
# above; one that ends a hundredth of them for a hundredth of a second. Where more compete, a part of them does.
CONTESTED_RATE = 150_000
FEW_TENANTS = 8
MANY_TENANTS = 32
# Of the most tenants that a claim saw lately, this is left after each claim: small ones see few.
TENANTS_KEPT = 0.95
# How long tenants that competed are taken to come back.
CONTEST_SECONDS = 5.0
RATE_WINDOW_SECONDS = 0.02
# After so long without progress, prefetched jobs go back to the queue: the jobs before them turned out to be slow.
STALLED_SECONDS = 1.0


class Prefetch:
    """Measures how many jobs end in a second, and when one last began or ended."""

    def __init__(self) -> None:
        self._rate = 0.0
        # How many ended since the window began, and how many of them were looked at.
        self._ended = 0
        self._counted = 0
        self._window_began_at = time.monotonic()
        self._last_progress_at = self._window_began_at
        self._contested_until = 0.0
        self._tenants = 0.0

    @property
    def size(self) -> int:
        """How many jobs to hold beyond those that run."""
        is_contested = self._count() < self._contested_until
        seconds = min(PREFETCH_SECONDS, self._rate / self._contested_rate()) if is_contested else PREFETCH_SECONDS
        return int(self._rate * seconds)

    def contested(self, tenants: int) -> None:
        """A claim saw several tenants, and took jobs of this number of tenants."""
        self._contested_until = time.monotonic() + CONTEST_SECONDS
        self._tenants = max(tenants, TENANTS_KEPT * self._tenants)

    @property
    def is_stalled(self) -> bool:
        """True when no job has begun or ended for a second."""
        return self._count() - self._last_progress_at > STALLED_SECONDS

    def job_began(self) -> None:
        self._last_progress_at = time.monotonic()

    def job_ended(self) -> None:
        # Every job comes here: the clock is read for many together.
        self._ended += 1

    def reset(self) -> None:
        """Prefetch nothing until jobs end again."""
        self._rate = 0.0
        self._ended = self._counted = 0
        self._window_began_at = time.monotonic()

    def _contested_rate(self) -> float:
        return CONTESTED_RATE * FEW_TENANTS / min(MANY_TENANTS, max(FEW_TENANTS, self._tenants))

    def _count(self) -> float:
        """Take the jobs into account that ended since the last look. Returns the time."""
        now = time.monotonic()
        if self._ended > self._counted:
            self._counted = self._ended
            self._last_progress_at = now
            passed = now - self._window_began_at
            if passed >= RATE_WINDOW_SECONDS:
                self._rate = 0.5 * self._rate + 0.5 * self._ended / passed
                self._ended = self._counted = 0
                self._window_began_at = now
        return now
