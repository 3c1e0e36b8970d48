"""Reconciles the jobs that a worker holds with those that the database says it holds, after a response was lost.

If the call was committed and only its response was lost, the worker knows nothing of what it claimed: those jobs
go back to the queue. If a standby took over that did not have all commits, claims that the worker knows of may be
undone: those attempts are recorded as lost, also when the outage outlasted the lease, and their handlers stopped.
"""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from atlas.db.pool import Connection
from atlas.engine.jobs.claim import Claimant, ClaimedJob
from atlas.engine.jobs.finish import finish_and_claim
from atlas.engine.jobs.lease import held, record_undone
from atlas.engine.jobs.verdicts import cancel_attempt, release_attempt
from atlas.logs import get_logger
from atlas.workers.claims.held_jobs import HeldJobs
from atlas.workers.worker_lease import WorkerLease

log = get_logger("worker")


class Reconciler:
    """`stop_lost` is called with held jobs that are not this worker's any more."""

    def __init__(
        self, lease: WorkerLease, held_jobs: HeldJobs, stop_lost: Callable[[Sequence[ClaimedJob]], None]
    ) -> None:
        self._lease = lease
        self._held = held_jobs
        self._stop_lost = stop_lost
        self._is_requested = False
        self._running = asyncio.Lock()
        # What was held under ids whose lease was lost, until it is known which of those claims the database has.
        self._lost_jobs: dict[str, list[ClaimedJob]] = {}

    @property
    def is_due(self) -> bool:
        return self._is_requested and not self._running.locked()

    @property
    def is_running(self) -> bool:
        """True while the two are compared. Nothing may be claimed meanwhile."""
        return self._running.locked()

    def request(self) -> None:
        """Reconcile before the next claim."""
        self._is_requested = True

    def lose_lease(self, worker_id: str) -> None:
        """What is held under this id is not the worker's any more. Which of it was undone is recorded later."""
        if jobs := self._held.jobs:
            self._lost_jobs.setdefault(worker_id, []).extend(jobs)

    def reset(self) -> None:
        """Nothing is held: there is nothing to reconcile but what was lost."""
        self._is_requested = bool(self._lost_jobs)

    async def run(self, conn: Connection, *, calls_in_flight: int) -> None:
        """Reconcile now. While calls are in flight it remains due, as they may claim more."""
        claimant = self._lease.claimant
        if claimant is None:
            return
        async with self._running, asyncio.timeout(self._lease.seconds):
            # A response that is lost from here on makes it due again.
            self._is_requested = calls_in_flight > 0
            await self._record_lost(conn)
            held_before = self._held.jobs
            in_database = await held(conn, claimant.id)
            await self._stop_undone(conn, claimant, held_before, in_database)
            if calls_in_flight == 0 and claimant is self._lease.claimant:
                await self._release_unknown(conn, claimant, in_database)

    async def _record_lost(self, conn: Connection) -> None:
        """Record the undone among the claims under lost leases."""
        for worker_id, jobs in list(self._lost_jobs.items()):
            undone = await record_undone(conn, worker_id, [(job.id, job.attempt) for job in jobs])
            del self._lost_jobs[worker_id]
            for job in jobs:
                if job.id in undone:
                    log.error("claim under a lost lease was undone by the server", **job.log_facts(worker_id))

    async def _stop_undone(
        self,
        conn: Connection,
        claimant: Claimant,
        held_before: Sequence[ClaimedJob],
        in_database: Sequence[tuple[UUID, int]],
    ) -> None:
        """Stop the jobs whose claim a failover undid. They are queued again."""
        ids = set(in_database)
        missing = [job for job in held_before if (job.id, job.attempt) not in ids]
        if not missing:
            return
        undone = await record_undone(conn, claimant.id, [(job.id, job.attempt) for job in missing])
        lost = [job for job in missing if job.id in undone and self._held.get(job.id) is job]
        if lost:
            for job in lost:
                log.error("claim was undone by the server; its handler stops", **job.log_facts(claimant.id))
                self._held.drop(job.id)
            self._stop_lost(lost)

    async def _release_unknown(
        self, conn: Connection, claimant: Claimant, in_database: Sequence[tuple[UUID, int]]
    ) -> None:
        """Release the jobs whose claim never reached this worker."""
        # By attempt: when one call requeued a job and claimed it again, the attempt before is still held.
        pairs = {(job.id, job.attempt) for job in self._held.jobs}
        unknown = [attempt for attempt in in_database if attempt not in pairs]
        if unknown:
            log.warning("claims whose response was lost are released", worker_id=claimant.id, jobs=len(unknown))
            turn = await finish_and_claim(conn, claimant, [release_attempt(*attempt) for attempt in unknown])
            if turn.canceled:
                # A job that was asked to stop is not requeued.
                await finish_and_claim(conn, claimant, [cancel_attempt(*attempt) for attempt in turn.canceled])
