"""Jobs that several requests of one caller ask for at the same moment become one transaction.

A request on its own is enqueued at once. While that is under way, the caller's next ones gather, and go together when
it has ended: the busier, the larger the groups, and the less each costs. A request is answered when its job is
committed, and its event names its own request. Where a group is refused because of one of its jobs, each is tried
alone. Jobs with a dedupe key gather apart: they may have to wait for whoever holds it, and the others need not.
"""

import asyncio
import time
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.api.app_state import BRIEF_LOCK_TIMEOUT, AppState
from atlas.api.errors import Busy
from atlas.api.request_context import RequestContext
from atlas.api.ttl_cache import TtlCache
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.admission import Admission, load_admission
from atlas.engine.hosts.hosts import SERVER_TYPES
from atlas.engine.jobs import NewJob, enqueue_many
from atlas.engine.jobs.types import canonical
from atlas.errors import AtlasError, Conflict

MADE = statement("api/sql/made.sql")

# More than one, so that a slow commit does not hold up the next group; few, so that groups form. While one is at work,
# a second is worth a transaction from so many jobs on.
AT_ONCE = 2
WORTH_IT = 16
LARGEST_GROUP = 500
# How long one connection is kept for those who ask all the time.
TURN_SECONDS = 0.1
ADMISSION_SECONDS = 2.0
# How long a job waits for others once its group has: longer than an ordinary enqueue under the same key takes.
LATE_LOCK_TIMEOUT = "50ms"

_OF_A_JOB = (
    AtlasError,
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.TransactionRollbackError,
)
_Key = tuple[UUID | None, str, str, bool]
_Group = list[tuple[NewJob, "asyncio.Future[Made]"]]


@dataclass(frozen=True, slots=True)
class Made:
    """A job that is committed, as its request is told of it."""

    id: UUID
    tenant_id: UUID
    status: str
    job_type: str
    definition_key: str | None
    queued_at: datetime
    deduplicated: bool


@dataclass(slots=True)
class _TenantQueue:
    """What one caller has asked for and nobody has taken up yet."""

    tenant_id: UUID | None
    share: Hashable
    waiting: deque[tuple[NewJob, "asyncio.Future[Made]"]] = field(default_factory=deque)
    flushing: int = 0


class EnqueueBatcher:
    """Enqueues single jobs, together where they come together."""

    def __init__(self, api: AppState) -> None:
        self._api = api
        self._lines: dict[_Key, _TenantQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._admissions: TtlCache[tuple[str, UUID], Admission] = TtlCache(ADMISSION_SECONDS)

    async def admission(self, call: RequestContext, job_type: str, tenant_id: UUID) -> Admission:
        """What decides about jobs of a type, as it was at most a moment ago."""

        async def look_up() -> Admission:
            async with self._api.transaction(tenant_id, read_only=True, share=call.caller.share) as conn:
                return await load_admission(conn, job_type, tenant_id)

        return await self._admissions.get((canonical(job_type), tenant_id), look_up)

    async def enqueue(self, call: RequestContext, job: NewJob) -> Made:
        """Enqueue one admitted job and wait until it is committed."""
        actor = call.actor
        job.asked_by = actor
        key = (call.caller.tenant_id, actor.type, actor.id, job.dedupe_key is not None)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _TenantQueue(call.caller.tenant_id, call.caller.share)
        made: asyncio.Future[Made] = asyncio.get_running_loop().create_future()
        line.waiting.append((job, made))
        if not line.flushing or (line.flushing < AT_ONCE and len(line.waiting) >= WORTH_IT):
            line.flushing += 1
            task = asyncio.create_task(self._flush(key, line, actor))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await made

    async def _flush(self, key: _Key, line: _TenantQueue, actor: Actor) -> None:
        drained = False
        try:
            while not drained:
                # Watched by each transaction. Under load one follows the other without end, so it goes back at times:
                # other calls of the same share wait for it.
                async with self._api.acquire(watched=False, share=line.share) as conn:
                    ends_at = time.monotonic() + TURN_SECONDS
                    while line.waiting and time.monotonic() < ends_at:
                        group = [line.waiting.popleft() for _ in range(min(len(line.waiting), LARGEST_GROUP))]
                        await self._enqueue_group(conn, line, group, actor)
                    if not line.waiting:
                        # Before the connection is given back, which takes a moment: what comes now begins anew.
                        self._leave(key, line)
                        drained = True
        except Exception as error:
            # No connection, or a broken one: those who wait are told, and may try again, unless another is at it.
            if line.flushing == 1:
                for _, made in line.waiting:
                    _settle(made, error)
                line.waiting.clear()
        finally:
            if not drained:
                self._leave(key, line)

    def _leave(self, key: _Key, line: _TenantQueue) -> None:
        line.flushing -= 1
        if not line.flushing:
            self._lines.pop(key, None)

    async def _enqueue_group(self, conn: Connection, line: _TenantQueue, group: _Group, actor: Actor) -> None:
        group = [(job, made) for job, made in group if not made.done()]
        if not group:
            return
        try:
            try:
                await self._enqueue_together(conn, line, group, actor)
            except _OF_A_JOB as error:
                if len(group) > 1:
                    await self._enqueue_each(conn, line, group, actor, late=isinstance(error, Busy))
                else:
                    _settle(group[0][1], error)
        except BaseException as error:
            # Also of those who were not tried yet: nobody else knows of them.
            for _, made in group:
                _settle(made, error)
            raise

    async def _enqueue_each(
        self, conn: Connection, line: _TenantQueue, group: _Group, actor: Actor, *, late: bool
    ) -> None:
        """One by one. Once the group has waited for a key that others hold, no other wait is as long."""
        held: dict[tuple[UUID, str | None], Busy] = {}
        for job, made in group:
            key = (job.tenant_id, job.dedupe_key)
            if key in held:
                _settle(made, held[key])
            if made.done():
                continue
            try:
                patience = LATE_LOCK_TIMEOUT if late else BRIEF_LOCK_TIMEOUT
                await self._enqueue_together(conn, line, [(job, made)], actor, patience=patience)
            except _OF_A_JOB as error:
                _settle(made, error)
                if isinstance(error, Busy):
                    late = True
                    if job.dedupe_key is not None:
                        held[key] = error

    async def _enqueue_together(
        self, conn: Connection, line: _TenantQueue, group: _Group, actor: Actor, *, patience: str = BRIEF_LOCK_TIMEOUT
    ) -> None:
        async with self._api.brief(conn, line.tenant_id, patience=patience):
            found = await make(conn, [job for job, _ in group], actor)
        for (_, made), job in zip(group, found, strict=True):
            if not made.done():
                made.set_result(job)


async def make(conn: Connection, jobs: Sequence[NewJob], actor: Actor) -> list[Made]:
    """Enqueue jobs, all or none, and read what they became."""
    answers = await enqueue_many(conn, jobs, actor=actor)
    rows: dict[UUID, Any] = {row["id"]: row for row in await fetch(conn, MADE, ids=[one.id for one in answers])}
    if any(one.id not in rows for one in answers):
        raise Conflict("The job that held the dedupe key was just deleted.", remedy="Try again.")
    return [_made(rows[one.id], deduplicated=one.deduplicated) for one in answers]


def is_plain(job: NewJob) -> bool:
    """True for a job that is enqueued by one statement; those of hosts and those with secrets need several."""
    return not (job.secrets or job.host_id or job.server_instance_id or job.job_type in SERVER_TYPES)


def _made(row: Any, *, deduplicated: bool) -> Made:
    definition_key = row["job_type"] if row["is_command"] else None
    return Made(
        row["id"], row["tenant_id"], row["status"], row["job_type"], definition_key, row["created_at"], deduplicated
    )


def _settle(made: "asyncio.Future[Made]", error: BaseException) -> None:
    if not made.done():
        made.set_exception(error)
