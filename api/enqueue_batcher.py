"""Batches single enqueues: jobs that one caller posts at the same time are committed in one transaction.

A request on its own is enqueued immediately. While that is under way, the caller's next ones wait, and are enqueued
together when it has ended: the busier the caller, the larger the groups, and the less each job costs. A request is
answered when its job is committed, and its audit event names its own request. Where a group is refused because of one
of its jobs, each is enqueued alone. Jobs with a dedupe key have groups of their own: they may have to wait for another
transaction that holds the key, and the others need not.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.api.app_state import AppState
from atlas.api.caches.ttl_cache import TtlCache
from atlas.api.problems import Busy
from atlas.api.request_context import RequestContext
from atlas.db.group_commit import GroupCommit, Submitted
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.admission import Admission, load_admission
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.types import canonical
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import AtlasError, Conflict

ENQUEUED = statement("api/sql/enqueued_jobs.sql")

# More than one, so that a slow commit does not hold up the next group; few, so that groups form. While one is at work,
# a second transaction is worth its cost from SECOND_LANE_AT jobs on.
LANES = 2
SECOND_LANE_AT = 16
MAX_GROUP_SIZE = 500
# How long a busy caller keeps one connection: other calls of the same share wait for it.
KEEP_SECONDS = 0.1
# Idle groups are dropped when there are more than this.
MAX_CALLERS = 1000
ADMISSION_SECONDS = 2.0
# Shorter than elsewhere: the rest of the group waits behind the transaction.
LOCK_TIMEOUT = "1s"
# How long a job waits for a lock once its group has waited: longer than an ordinary enqueue under the same key takes.
LATE_LOCK_TIMEOUT = "50ms"

# Errors that concern one job of a group, not the connection.
_JOB_ERRORS = (
    AtlasError,
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.TransactionRollbackError,
)


@dataclass(frozen=True, slots=True)
class AcceptedJob:
    """A committed job, as its request is answered."""

    id: UUID
    tenant_id: UUID
    status: str
    job_type: str
    definition_key: str | None
    queued_at: datetime
    deduplicated: bool


_Item: TypeAlias = Submitted[NewJob, AcceptedJob]


class EnqueueBatcher:
    """Enqueues single jobs, together where they come together."""

    def __init__(self, api: AppState) -> None:
        self._api = api
        self._groups: dict[Hashable, GroupCommit[NewJob, AcceptedJob]] = {}
        self._admissions: TtlCache[tuple[str, UUID], Admission] = TtlCache(ADMISSION_SECONDS)

    async def admission(self, call: RequestContext, job_type: str, tenant_id: UUID) -> Admission:
        """The rules for jobs of a type, cached for two seconds."""

        async def look_up() -> Admission:
            async with call.transaction(read_only=True) as conn:
                return await load_admission(conn, job_type, tenant_id)

        return await self._admissions.get((canonical(job_type), tenant_id), look_up)

    async def enqueue(self, call: RequestContext, job: NewJob) -> AcceptedJob:
        """Enqueue one admitted job and wait until it is committed."""
        job.asked_by = actor = call.actor
        key = (call.caller.tenant_id, actor.type, actor.id, job.dedupe_key is not None)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._group_of(call)
        slots = self._api.batch_slots
        slots.begin_single()
        try:
            return await group.submit(job)
        finally:
            slots.end_single()

    def _group_of(self, call: RequestContext) -> GroupCommit[NewJob, AcceptedJob]:
        if len(self._groups) >= MAX_CALLERS:
            self._groups = {key: group for key, group in self._groups.items() if not group.is_idle}
        # Each transaction watches the connection: under load one follows the other without end.
        return GroupCommit(
            partial(self._api.db.connection, watched=False, share=call.caller.share),
            partial(self._enqueue_group, call.caller.tenant_id),
            largest=MAX_GROUP_SIZE,
            lanes=LANES,
            next_lane_at=SECOND_LANE_AT,
            keep_seconds=KEEP_SECONDS,
        )

    async def _enqueue_group(self, tenant_id: UUID | None, conn: Connection, group: Sequence[_Item]) -> None:
        try:
            await self._enqueue_together(tenant_id, conn, group)
        except _JOB_ERRORS as error:
            if len(group) > 1:
                await self._enqueue_each(tenant_id, conn, group, late=isinstance(error, Busy))
            else:
                group[0].reject(error)

    async def _enqueue_each(
        self, tenant_id: UUID | None, conn: Connection, group: Sequence[_Item], *, late: bool
    ) -> None:
        """One by one. Once the group has waited for a key that another transaction holds, no other wait is as long."""
        held: dict[tuple[UUID, str | None], Busy] = {}
        for call in group:
            key = (call.item.tenant_id, call.item.dedupe_key)
            if key in held:
                call.reject(held[key])
            if call.is_settled:
                continue
            try:
                lock_timeout = LATE_LOCK_TIMEOUT if late else LOCK_TIMEOUT
                await self._enqueue_together(tenant_id, conn, [call], lock_timeout=lock_timeout)
            except _JOB_ERRORS as error:
                call.reject(error)
                if isinstance(error, Busy):
                    late = True
                    if call.item.dedupe_key is not None:
                        held[key] = error

    async def _enqueue_together(
        self,
        tenant_id: UUID | None,
        conn: Connection,
        group: Sequence[_Item],
        *,
        lock_timeout: str = LOCK_TIMEOUT,
    ) -> None:
        jobs = [call.item for call in group]
        actor = jobs[0].asked_by
        assert actor is not None
        async with self._api.db.flat_transaction(conn, tenant_id, lock_timeout=lock_timeout):
            results = await make(conn, jobs, actor)
        for call, result in zip(group, results, strict=True):
            call.resolve(result)


async def make(conn: Connection, jobs: Sequence[NewJob], actor: Actor) -> list[AcceptedJob]:
    """Enqueue jobs, all or none, and read what they became."""
    times: list[datetime] = []
    enqueued = await enqueue_many(conn, jobs, actor=actor, times=times)
    if times:
        return [_new(job, created_at) for job, created_at in zip(jobs, times, strict=True)]
    rows: dict[UUID, Any] = {
        row["id"]: row for row in await fetch(conn, ENQUEUED, ids=[entry.id for entry in enqueued])
    }
    if any(entry.id not in rows for entry in enqueued):
        raise Conflict("The job that held the dedupe key was just deleted.", remedy="Try again.")
    return [_accepted(rows[entry.id], deduplicated=entry.deduplicated) for entry in enqueued]


def is_plain(job: NewJob) -> bool:
    """True for a job that is enqueued by one statement; those of hosts and those with secrets need several."""
    return not (job.secrets or job.needs_host)


def _new(job: NewJob, created_at: datetime) -> AcceptedJob:
    """A job that was made as asked: it waits where it is due later."""
    is_delayed = bool(job.delay) or (job.run_at is not None and job.run_at > created_at)
    status = "waiting" if is_delayed else "queued"
    return AcceptedJob(job.id, job.tenant_id, status, canonical(job.job_type), None, created_at, deduplicated=False)


def _accepted(row: Any, *, deduplicated: bool) -> AcceptedJob:
    definition_key = row["job_type"] if row["is_command"] else None
    return AcceptedJob(
        row["id"], row["tenant_id"], row["status"], row["job_type"], definition_key, row["created_at"], deduplicated
    )
