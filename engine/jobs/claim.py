"""Claim: take due jobs for a claimant, and read what a round trip of finishing and claiming brought.

Every claim is one statement, in one round trip and one commit. It is fenced and all or nothing, so that it can be
repeated after a deadlock or a broken connection.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import orjson

from atlas.db.pool import Connection
from atlas.db.statements import Statement, fetch, fetch_value, retry_deadlocks, statement
from atlas.engine.jobs.backoff import ATLAS
from atlas.errors import DatabaseError
from atlas.logs import job_facts

CLAIM = statement("engine/jobs/sql/claim.sql")
CLAIM_OF_TENANT = statement("engine/jobs/sql/claim_of_tenant.sql")
SOLO_WAITS = statement("engine/jobs/sql/solo_waits.sql")
FIND_PLACES = statement("engine/jobs/sql/find_places.sql")


class UnknownTurnRow(DatabaseError):
    """A claim returned a row of a kind that this program does not know. What it claimed is released by its caller."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"A claim returned an unknown row: {kind!r}.",
            remedy="The database belongs to a newer version: upgrade this program.",
        )


@dataclass(frozen=True, slots=True)
class Claimant:
    """A worker process under its own lease, or a program whose jobs carry a lease each (`lease` seconds)."""

    id: str
    job_types: Sequence[str] | None
    lease: float | None = None
    # Whether tenants share the workers. If not, priority and age order the jobs of all.
    is_fair: bool = True


@dataclass(slots=True)
class ClaimedJob:
    """A job this process holds. `attempt` is the fence of everything it may write."""

    id: UUID
    tenant_id: UUID
    job_type: str
    input: str
    attempt: int
    retry_count: int
    # None: the job chose none, and the worker that runs it fills in those of its handler.
    max_retries: int | None
    lost_count: int
    timeout_seconds: int | None
    definition_id: UUID | None
    parent_run_id: UUID | None
    correlation_id: str | None
    # It was lost so often that it runs alone in its process.
    must_run_alone: bool = False
    # Its deadlines by `time.monotonic()`: the latest start, and the end of its attempt.
    start_before: float | None = None
    finish_before: float | None = None
    # What it uses is charged to its tenant, also where no claim saw several tenants.
    is_charged: bool = False

    @property
    def has_retries_left(self) -> bool:
        return self.retry_count < self.retries

    def ends_before(self, delay: float) -> bool:
        """True when its time to finish is over after this delay: an attempt that begins then is too late."""
        return self.finish_before is not None and time.monotonic() + delay >= self.finish_before

    @property
    def retries(self) -> int:
        """How often it is retried; the default where neither the job nor a handler says it."""
        return ATLAS.max_retries if self.max_retries is None else self.max_retries

    def log_facts(self, worker_id: str) -> dict[str, str | int | None]:
        """What a log line about this attempt says."""
        return job_facts(
            self.id, tenant_id=self.tenant_id, job_type=self.job_type, attempt=self.attempt, worker_id=worker_id
        )


class ReadyPlace(NamedTuple):
    """Ready jobs of one tenant, type and priority that were created since then, in seconds of the epoch."""

    job_type: str
    tenant_id: UUID
    priority: int
    since: float
    # Of jobs that are counted against limits.
    is_limited: bool = False


class ClaimSnapshot(NamedTuple):
    """When a claim began, in seconds of the epoch, the oldest transaction that was open then, and its own."""

    at: float
    oldest_open: int
    own: int | None


class Places(NamedTuple):
    """Where ready jobs begin, and how many index entries were read to find that."""

    ready: list[ReadyPlace]
    entries_read: int
    # The time was over: there may be more after the last place.
    are_cut: bool = False

    @property
    def are_found_fast(self) -> bool:
        """True while a claim from the head is not slow either; the function claim has the same bound."""
        return self.entries_read <= 2000 + 8 * len(self.ready)


@dataclass(slots=True)
class TurnResult:
    """What one round trip brought: the jobs it claimed, and the finishes it refused.

    A finish is `lost` when the lease was, and `canceled` when it would requeue a job that was asked to stop.
    """

    claimed: list[ClaimedJob] = field(default_factory=list)
    lost: list[tuple[UUID, int]] = field(default_factory=list)
    canceled: list[tuple[UUID, int]] = field(default_factory=list)
    # The gate is closed, or the claimant's lease is over.
    closed: bool = False
    # There may be more to claim: ask again.
    again: bool = False
    # Several tenants have jobs for the claimant: it reports what theirs use, and goes on among them after `after`.
    contested: bool = False
    after: UUID | None = None
    # What these have used is to be reported again.
    not_charged: list[UUID] = field(default_factory=list)
    # A job that must run alone waits for a claimant that holds nothing.
    solo_waits: bool = False
    # Throttled jobs: seconds until the next claim may find some.
    next_token: float | None = None
    # The version of the pauses under which it claimed; 0 if there were none.
    pauses: int = 0
    # Many dead index entries stand before the jobs.
    is_slow: bool = False
    # For a claim with places: the newest job that was claimed of each, or the oldest that is left of a limited one, and
    # until when all that fell due, was released or was woken is claimed.
    places: list[ReadyPlace] = field(default_factory=list)
    due_until: float | None = None
    snapshot: ClaimSnapshot | None = None

    @property
    def is_empty(self) -> bool:
        """True when there was surely nothing to claim."""
        return not (self.claimed or self.closed or self.again or self.solo_waits)


async def claim(conn: Connection, claimant: Claimant, *, limit: int) -> list[ClaimedJob]:
    """Take up to `limit` due jobs. Fewer, or none, is an ordinary result: jobs others are claiming are passed over.

    The caller holds no other job, and runs these before it claims more: a job that was lost twice is claimed alone.
    """
    return (await claim_for_slots(conn, claimant, slots=limit, alone=True)).claimed


async def claim_for_slots(
    conn: Connection,
    claimant: Claimant,
    *,
    slots: int,
    prefetch: int = 0,
    alone: bool = False,
    after: UUID | None = None,
    resume: str | None = None,
    within: float | None = None,
) -> TurnResult:
    """Claim up to `slots` jobs to run now and `prefetch` more to run next.

    `after` is where the last claim among many tenants ended, `resume` the places to go on from, as JSON.

    `alone` says that nothing else is held: a job that was lost twice may then be the only one that is claimed.
    """
    values = claim_values(claimant, slots, prefetch, alone=alone, after=after, resume=resume)
    return await run_turn(conn, CLAIM, values, within=within)


async def claim_of_tenant(
    conn: Connection, claimant: Claimant, tenant_id: UUID, job_type: str, *, within: float
) -> TurnResult:
    """Claim the next job of one tenant and type for a worker, unless the tenant has used more than its share."""
    values = {"worker": claimant.id, "tenant_id": tenant_id, "job_type": job_type}
    return await run_turn(conn, CLAIM_OF_TENANT, values, within=within)


async def solo_waits(conn: Connection, job_types: Sequence[str]) -> bool:
    """True while a job of these types must run alone and waits for a claimant that holds nothing."""
    return bool(await fetch_value(conn, SOLO_WAITS, types=list(job_types)))


async def find_places(
    conn: Connection, job_types: Sequence[str] | None, *, after: ReadyPlace | None = None, within: float | None = None
) -> Places:
    """Where the ready jobs of these types begin, after a place, as far as they are found in this time.

    It takes long where dead index entries stand before them.
    """
    *rows, last = await fetch(
        conn,
        FIND_PLACES,
        types=job_types,
        after_type=after and after.job_type,
        after_tenant=after and after.tenant_id,
        after_priority=after and after.priority,
        within=None if within is None else timedelta(seconds=within),
    )
    return Places([ReadyPlace(*row) for row in rows], int(last["since"]), last["careful"])


def claim_values(
    claimant: Claimant, slots: int, prefetch: int, *, alone: bool, after: UUID | None, resume: str | None
) -> dict[str, Any]:
    """The claiming half of the statement's values."""
    return {
        "worker": claimant.id,
        "slots": slots,
        "prefetch": prefetch,
        "types": claimant.job_types,
        "lease": claimant.lease,
        "alone": alone,
        "fair": claimant.is_fair,
        "after": after,
        "resume": resume,
    }


async def run_turn(conn: Connection, query: Statement, values: dict[str, Any], *, within: float | None) -> TurnResult:
    """Run the statement, again after a deadlock. After `within` seconds TimeoutError: it may have committed or not."""
    bound = query.bind(values)
    asked_at = time.monotonic()
    try:
        # Without a wrapper around it: an idle worker's claim is felt in the time from enqueue to start.
        rows = await conn.fetch(query.sql, *bound, timeout=within)
    except asyncpg.DeadlockDetectedError:
        if conn.is_in_transaction():
            raise
        rows = await retry_deadlocks(conn, lambda: conn.fetch(query.sql, *bound, timeout=within))
    return _read(rows, asked_at)


def claimed_job(columns: Sequence[Any], asked_at: float) -> ClaimedJob:
    """The job of a row. Its deadlines are seconds from the claim: counted from the request, they are not late."""
    job = ClaimedJob(*columns)
    if job.start_before is not None:
        job.start_before += asked_at
    if job.finish_before is not None:
        job.finish_before += asked_at
    return job


def _read(rows: Sequence[Any], asked_at: float) -> TurnResult:
    turn = TurnResult()
    claimed = turn.claimed
    for row in rows:
        match row[0]:
            case "claimed":
                # Most jobs have no deadline: one call less for each.
                claimed.append(ClaimedJob(*row[1:]) if row[14] is None else claimed_job(row[1:], asked_at))
            case "lease_lost":
                turn.lost.append((row[1], row[5]))
            case "cancel_requested":
                turn.canceled.append((row[1], row[5]))
            case "closed":
                turn.closed = True
            case "alone_waits":
                turn.solo_waits = True
            case "token_waits":
                turn.next_token = row[5] / 1000
            case "shared":
                turn.contested, turn.after = True, row[2]
            case "paused":
                turn.pauses = row[5]
            case "slow":
                turn.is_slow = True
            case "place" if row[3] is None:
                turn.due_until, turn.snapshot = row[14], ClaimSnapshot(*orjson.loads(row[4]))
            case "place":
                turn.places.append(ReadyPlace(row[3], row[2], row[5], row[14], bool(row[13])))
            case "not_charged":
                turn.not_charged.append(row[2])
            case "more" | "busy":
                turn.again = True
            case kind:
                raise UnknownTurnRow(kind)
    return turn
