"""What tenants use of a worker while they compete for it: the seconds that their jobs hold its slots.

It is measured here and reported with the calls of the claim loop; the database decides by the sums of all workers. A
tenant that has a worker for itself is not charged: no other waits for what it uses. Jobs of the fast lane are.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.finish import WorkerTime
from atlas.workers.attempts.slot import Slot

# Less is reported later: a tenant's jobs may be shorter than the statement that reports them.
MIN_SECONDS = 0.001
# But at the latest after this many jobs, however short: each counts for something (charge_tenants.sql).
MAX_UNREPORTED_JOBS = 20
# How often it is reported while a transaction holds the xmin horizon: every version of a tenant's row stays meanwhile.
HELD_SECONDS = 1.0


class TenantUsage:
    """`running` gives the slots that run a job now."""

    def __init__(self, running: Callable[[], Iterable[Slot]]) -> None:
        self._running = running
        # Seconds and jobs by tenant.
        self._used: dict[UUID, _Used] = {}
        self._counted_until = 0.0
        self._reported_at = 0.0
        # Jobs that are charged also while no others compete, and have not ended.
        self._charged_jobs = 0
        self.is_contested = False

    def claimed(self, *, contested: bool) -> None:
        """Note whether a claim saw several tenants."""
        if contested and not self.is_contested:
            self._counted_until = time.monotonic()
        elif self.is_contested and not contested:
            self._used.clear()
        self.is_contested = contested

    def charge(self, jobs: Sequence[ClaimedJob]) -> None:
        """Charge these jobs, whether tenants compete or not: they passed those of others."""
        for job in jobs:
            job.is_charged = True
        self._charged_jobs += len(jobs)

    def job_ended(self, job: ClaimedJob, since: float) -> None:
        """Count a job that began at `since`. Called while tenants compete, and for jobs that are charged anyway."""
        used = self._of(job.tenant_id)
        counted_until = self._counted_until
        used.seconds += time.monotonic() - (since if since > counted_until else counted_until)
        used.jobs += 1
        if job.is_charged:
            self._charged_jobs -= 1

    def take(self, *, seldom: bool = False) -> WorkerTime | None:
        """What to report now, with the time that running jobs have taken until now."""
        if not (self.is_contested or self._charged_jobs or self._used):
            return None
        now = time.monotonic()
        if seldom and now < self._reported_at + HELD_SECONDS:
            return None
        for slot in self._running():
            if slot.job is not None and (self.is_contested or slot.job.is_charged):
                self._of(slot.job.tenant_id).seconds += now - max(slot.since, self._counted_until)
        self._counted_until = now
        tenants = [
            tenant_id
            for tenant_id, used in self._used.items()
            if used.seconds >= MIN_SECONDS or used.jobs >= MAX_UNREPORTED_JOBS
        ]
        if not tenants:
            return None
        self._reported_at = now
        taken = [self._used.pop(tenant_id) for tenant_id in tenants]
        return WorkerTime(tenants, [used.seconds for used in taken], [used.jobs for used in taken])

    def keep(self, usage: WorkerTime, tenants: Iterable[UUID]) -> None:
        """Report these again: they were not recorded."""
        again = set(tenants)
        for tenant_id, seconds, jobs in zip(usage.tenants, usage.seconds, usage.jobs, strict=True):
            if tenant_id in again:
                used = self._of(tenant_id)
                used.seconds += seconds
                used.jobs += jobs

    def _of(self, tenant_id: UUID) -> "_Used":
        used = self._used.get(tenant_id)
        if used is None:
            used = self._used[tenant_id] = _Used()
        return used


class _Used:
    """What one tenant has used and is not reported yet."""

    __slots__ = ("jobs", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.jobs = 0
