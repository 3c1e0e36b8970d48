"""What tenants use of a worker while they compete for it: the seconds that their jobs hold its slots.

It is measured here and reported with the calls of the claim loop; the database decides by the sums of all workers. A
tenant that has a worker for itself is not charged: no other waits for what it uses. Jobs of the fast lane are.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.finish import WorkerTime
from atlas.workers.slot import Slot

# Less is reported later: a tenant's jobs may be shorter than the statement that reports them.
LEAST_SECONDS = 0.001


class TenantUsage:
    """`running` gives the slots that run a job now."""

    def __init__(self, running: Callable[[], Iterable[Slot]]) -> None:
        self._running = running
        self._seconds: defaultdict[UUID, float] = defaultdict(float)
        self._jobs: Counter[UUID] = Counter()
        self._counted_until = 0.0
        # Jobs that are charged also while no others compete, and have not ended.
        self._charged_jobs = 0
        self.is_contested = False

    def claimed(self, *, contested: bool) -> None:
        """Note whether a claim saw several tenants."""
        if contested and not self.is_contested:
            self._counted_until = time.monotonic()
        elif self.is_contested and not contested:
            self._seconds.clear()
            self._jobs.clear()
        self.is_contested = contested

    def charge(self, jobs: Sequence[ClaimedJob]) -> None:
        """Charge these jobs, whether tenants compete or not: they passed those of others."""
        for job in jobs:
            job.is_charged = True
        self._charged_jobs += len(jobs)

    def job_ended(self, job: ClaimedJob, since: float) -> None:
        """Count a job that began at `since`. Called while tenants compete, and for jobs that are charged anyway."""
        self._seconds[job.tenant_id] += time.monotonic() - max(since, self._counted_until)
        self._jobs[job.tenant_id] += 1
        self._charged_jobs -= job.is_charged

    def take(self) -> WorkerTime | None:
        """What to report now, with the time that running jobs have taken until now."""
        if not (self.is_contested or self._charged_jobs or self._seconds):
            return None
        now = time.monotonic()
        for slot in self._running():
            if slot.job is not None and (self.is_contested or slot.job.is_charged):
                self._seconds[slot.job.tenant_id] += now - max(slot.since, self._counted_until)
        self._counted_until = now
        tenants = [tenant_id for tenant_id, seconds in self._seconds.items() if seconds >= LEAST_SECONDS]
        if not tenants:
            return None
        seconds = [self._seconds.pop(tenant_id) for tenant_id in tenants]
        return WorkerTime(tenants, seconds, [self._jobs.pop(tenant_id, 0) for tenant_id in tenants])

    def keep(self, usage: WorkerTime, tenants: Iterable[UUID]) -> None:
        """Report these again: they were not recorded."""
        again = set(tenants)
        for tenant_id, seconds, jobs in zip(usage.tenants, usage.seconds, usage.jobs, strict=True):
            if tenant_id in again:
                self._seconds[tenant_id] += seconds
                self._jobs[tenant_id] += jobs
