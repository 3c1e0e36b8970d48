"""For applications that run jobs themselves, without Atlas's workers.

The jobs it claims have a lease each. The repository keeps the attempt of each, so that it can only finish what it still
holds; call `heartbeat` for work that may outlast the lease.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from atlas.actors import Actor, as_actor
from atlas.bounds import DEFAULT_MAX_OUTPUT
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.engine.admission import admit
from atlas.engine.jobs.attempts.output import dump_output
from atlas.engine.jobs.backoff import RetryPolicy, policy_of
from atlas.engine.jobs.claim import Claimant, ClaimedJob, claim
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import Finish, finish
from atlas.engine.jobs.handlers.types import canonical, registered
from atlas.engine.jobs.lease import heartbeat_job, new_worker_id
from atlas.engine.jobs.lists.find import JobRow, get_job
from atlas.engine.jobs.lists.job_list import JobFilter, list_jobs
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.verdicts import JobCanceled, decide, succeed
from atlas.errors import LeaseLost, NotClaimed

RETRIES = statement("engine/sql/retries.sql")

_CLAIM_FIRST = "Claim jobs with `claim`, and finish each of them once, with the repository that claimed it."
_KEEP = "Call `heartbeat` while the job runs, or give JobsRepository a longer `lease`."


@dataclass(frozen=True, slots=True)
class EnqueueJob:
    """A job as an application asks for it. No tenant means the built-in `system` one."""

    job_type: str
    tenant_id: UUID | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    run_at: datetime | None = None
    priority: int | None = None
    max_retries: int | None = None
    dedupe_key: str | None = None
    correlation_id: str | None = None


class JobsRepository:
    """Enqueue, claim and finish jobs over any connection, in the transaction it has.

    One instance is one claimant. It finishes only jobs it claimed (else NotClaimed), and only under a live
    lease (else LeaseLost).
    """

    def __init__(
        self,
        *,
        actor: Actor | str | None = None,
        job_types: list[str] | None = None,
        lease: float = 60.0,
        policy: RetryPolicy | str | None = None,
    ) -> None:
        self.claimant = Claimant(new_worker_id(), job_types, lease)
        self._actor = Actor("system", self.claimant.id) if actor is None else as_actor(actor)
        self._policy = policy
        self._held: dict[UUID, ClaimedJob] = {}

    async def enqueue(self, conn: Connection, request: EnqueueJob) -> UUID:
        """The new job's id, or that of the active job with the same dedupe key."""
        job = NewJob(
            request.job_type,
            request.payload,
            request.tenant_id or SYSTEM_TENANT,
            priority=request.priority,
            run_at=request.run_at,
            max_retries=self._retries(request),
            dedupe_key=request.dedupe_key,
            correlation_id=request.correlation_id,
            # Who runs jobs without workers has published no types.
            allow_unknown=True,
        )
        return (await enqueue(conn, await admit(conn, job), actor=self._actor, coalesce=True)).id

    def _retries(self, request: EnqueueJob) -> int | None:
        """The retries asked for, else those of the repository's own policy; None for those of the job type."""
        if request.max_retries is not None or self._policy is None:
            return request.max_retries
        return policy_of(self._policy).max_retries

    async def claim(self, conn: Connection, *, limit: int = 1) -> list[ClaimedJob]:
        """Claim up to `limit` due jobs, under the gate and the limits like every claim."""
        taken = await claim(conn, self.claimant, limit=limit)
        for job in taken:
            if job.max_retries is None:
                job.max_retries = await self._retries_of(conn, job)
            self._held[job.id] = job
        return taken

    async def heartbeat(self, conn: Connection, job_id: UUID) -> None:
        """Renew a job's lease."""
        job = self._held_job(job_id)
        lease = self.claimant.lease or 60.0
        if await heartbeat_job(conn, self.claimant.id, job.id, job.attempt, lease=lease) is None:
            self._held.pop(job_id, None)
            raise LeaseLost(job_id, job.attempt, remedy=_KEEP)

    async def mark_success(self, conn: Connection, job_id: UUID, output: Any = None) -> None:
        """running → succeeded."""
        job = self._held_job(job_id)
        registered_type = registered().get(canonical(job.job_type))
        text = dump_output(output, limit=DEFAULT_MAX_OUTPUT if registered_type is None else registered_type.max_output)
        action = "JOB_SUCCEEDED" if registered_type is None else registered_type.success_action
        await self._finish(conn, job, succeed(job, self.claimant.id, text, action))

    async def mark_failure(self, conn: Connection, job_id: UUID, error: BaseException | str) -> None:
        """running → queued for a retry; failed without retries or by a permanent error; canceled if asked to stop."""
        job = self._held_job(job_id)
        cause = error if isinstance(error, BaseException) else RuntimeError(error)
        await self._finish(conn, job, decide(job, self.claimant.id, cause, self._policy_of(job)))

    async def get(self, conn: Connection, job_id: UUID) -> JobRow | None:
        """One job."""
        return await get_job(conn, job_id)

    async def list(
        self, conn: Connection, job_filter: JobFilter | None = None, *, before: UUID | None = None, limit: int = 50
    ) -> list[JobRow]:
        """A page of jobs, newest first."""
        return await list_jobs(conn, job_filter, before=before, limit=limit)

    def _held_job(self, job_id: UUID) -> ClaimedJob:
        if job_id not in self._held:
            raise NotClaimed(job_id, remedy=_CLAIM_FIRST)
        return self._held[job_id]

    async def _finish(self, conn: Connection, job: ClaimedJob, row: Finish) -> None:
        turn = await finish(conn, self.claimant, [row])
        if turn.canceled:
            # Asked to stop: there is no retry for it.
            stopped = JobCanceled("Canceled while running.")
            turn = await finish(conn, self.claimant, [decide(job, self.claimant.id, stopped, self._policy_of(job))])
        if turn.lost:
            self._held.pop(job.id, None)
            raise LeaseLost(job.id, job.attempt, remedy=_KEEP)
        # In the caller's transaction this may be rolled back; the job is then still held.
        if not conn.is_in_transaction():
            self._held.pop(job.id, None)

    async def _retries_of(self, conn: Connection, job: ClaimedJob) -> int:
        """Those of the repository's own policy, else of the job's handler in this process, else as published."""
        registered_type = registered().get(canonical(job.job_type))
        if self._policy is not None:
            return policy_of(self._policy).max_retries
        return (
            int(await fetch_value(conn, RETRIES, job_id=job.id))
            if registered_type is None
            else registered_type.max_retries
        )

    def _policy_of(self, job: ClaimedJob) -> RetryPolicy:
        registered_type = registered().get(canonical(job.job_type))
        return (
            policy_of(self._policy) if registered_type is None or self._policy is not None else registered_type.policy
        )
