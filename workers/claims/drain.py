"""When a worker ends by itself: nothing is due any more, Atlas is offline, or it has begun as many jobs as it may."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.claim import ClaimedJob, TurnResult
from atlas.engine.jobs.start_right import boot_seconds
from atlas.engine.jobs.switches.gate import read_gate
from atlas.workers.claims.demand import NO_JOBS, Request
from atlas.workers.claims.turn_call import TurnCall
from atlas.workers.worker_lease import WorkerLease

OLDEST_DUE = statement("workers/sql/oldest_due.sql")

# A drain whose claim was refused although the gate is open, or missed what others mark as ready, asks again after this.
REFUSED_SECONDS = 0.1
# How often for the same job: someone may hold its row for long.
MAX_MISSED = 50


class Drain:
    """`ended` is set when the worker has to end: it was stopped, or it is drained."""

    def __init__(self, *, when_empty: bool, max_jobs: int | None) -> None:
        self.when_empty = when_empty
        self.ended = asyncio.Event()
        self.found_gate_closed = False
        self.max_jobs = max_jobs
        self._begun = 0
        self._oldest_due: datetime | None = None
        self._none_due_at: float | None = None
        self._missed = 0
        self.begun_types: Counter[str] = Counter()

    @property
    def has_begun_all(self) -> bool:
        """True when the worker has begun as many jobs as it may."""
        return self.max_jobs is not None and self._begun >= self.max_jobs

    async def check_refusal(self, conn: Connection, turn: TurnResult, lease: WorkerLease) -> None:
        """A claim is also refused while the gate is being switched, or when the lease is over: a drain then goes on."""
        async with asyncio.timeout(lease.seconds):
            gate = await read_gate(conn)
        if gate.online:
            turn.closed, turn.again = False, True
            lease.heartbeat_now.set()
            await asyncio.sleep(REFUSED_SECONDS)

    async def check_due(self, conn: Connection, call: TurnCall, turn: TurnResult, *, within: float) -> None:
        """A claim marks a few hundred jobs as ready, and misses those that a sweep is marking: a drain then goes on.

        What was marked between the claim and the look for such jobs is seen by neither, so the claim that ends a drain
        begins after a look that found none.
        """
        if call.finishes or not turn.is_empty:
            self._none_due_at = None
        if call.request.jobs and turn.is_empty and (self._none_due_at is None or call.asked_at < self._none_due_at):
            async with asyncio.timeout(within):
                oldest: datetime | None = await fetch_value(conn, OLDEST_DUE)
            self._none_due_at = boot_seconds() if oldest is None else None
            self._missed = self._missed + 1 if oldest is not None and oldest == self._oldest_due else 0
            self._oldest_due = oldest
            turn.again = self._missed < MAX_MISSED
            if self._missed and turn.again:
                await asyncio.sleep(REFUSED_SECONDS)

    def limit(self, request: Request, *, in_flight: int) -> Request:
        """The part of a request that is left to it. With a limit nothing is prefetched."""
        if self.max_jobs is None:
            return request
        left = min(request.slots, self.max_jobs - self._begun - in_flight)
        return Request(left, 0, request.alone) if left > 0 else NO_JOBS

    def began(self, jobs: Sequence[ClaimedJob]) -> None:
        """Count what was claimed, where the worker may begin a number of jobs only."""
        self._begun += len(jobs)
        self.begun_types.update(job.job_type for job in jobs)

    def check(self, turn: TurnResult, *, found_nothing: bool) -> bool:
        """Called when nothing is held, recorded or asked for. False: the worker has to ask once more."""
        if turn.closed or self.has_begun_all or found_nothing:
            self.found_gate_closed = turn.closed
            self.ended.set()
        return self.ended.is_set()
