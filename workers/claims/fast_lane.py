"""The fast lane: claims one job of a tenant of which the worker holds none, beside the calls of the claim loop.

A call of a busy worker records and claims many jobs, and a new job of another tenant would wait for the end of two of
them. The database decides here as well: a tenant that has used more than its share gets nothing.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from atlas.db.pool import Connection, Pool
from atlas.engine.jobs.claim import Claimant, ClaimedJob, TurnResult, claim_of_tenant
from atlas.engine.jobs.start_right import boot_seconds
from atlas.waiting import wait_for
from atlas.workers.claims.demand import Demand, Request
from atlas.workers.worker_lease import WorkerLease

# After a call it rests this many times as long as the call took, within bounds: one slow call does not delay the jobs
# of a second. After each that found nothing it rests twice as long: several workers ask for the same job, and one gets
# it.
RESTS = 10
MAX_REST_SECONDS = 0.05
MAX_REST_AFTER_NOTHING_SECONDS = 1.0
# How long one of its calls may keep others waiting.
GOES_FIRST_SECONDS = 0.02
# No tenant has it: a call for it claims nothing.
NO_TENANT = UUID(int=0)
ONE_AHEAD = Request(prefetch=1)

_tenant = attrgetter("tenant_id")


class FastLane:
    """`take` is called with what a call brought, the claimant it was made for, and when it was sent."""

    def __init__(
        self, pool: Pool, lease: WorkerLease, demand: Demand, *, take: Callable[[TurnResult, Claimant, float], None]
    ) -> None:
        self._pool = pool
        self._lease = lease
        self._demand = demand
        self._take = take
        # The tenants whose jobs the last two calls of the claim loop brought.
        self._served: tuple[frozenset[UUID], frozenset[UUID]] = (frozenset(), frozenset())
        self._place: tuple[UUID, str] | None = None
        self._new = asyncio.Event()
        # Set once the worker is busy, shares its slots fairly, and has room for jobs ahead of others.
        self._is_needed = asyncio.Event()
        # True while it has a connection whose statement is planned.
        self._is_ready = False
        # Set while it claims nothing.
        self.idle = asyncio.Event()
        self.idle.set()
        self._goes_first_until = 0.0
        self._rests_until = 0.0
        self._rest = 0.0

    def serves(self, jobs: Sequence[ClaimedJob]) -> None:
        """A call of the claim loop brought these jobs."""
        # Those of one tenant mostly come together, and comparing ids takes a tenth of hashing them.
        tenants = frozenset(tenant_id for tenant_id, _ in groupby(map(_tenant, jobs)))
        self._served = (self._served[1], tenants)
        claimant = self._lease.claimant
        if not self._is_needed.is_set() and claimant is not None and claimant.is_fair and self._demand.has_room_ahead:
            self._is_needed.set()

    def offer(self, payload: str) -> bool:
        """A job was enqueued, and this names its tenant and type. True if it is claimed here."""
        claimant, in_flight = self._lease.claimant, self._demand.in_flight
        if not payload or claimant is None or not self._is_ready or not in_flight.calls:
            return False
        job = read_new_job(payload)
        if job is None:
            return False
        tenant_id, job_type, _ = job
        if any(tenant_id in tenants for tenants in self._served) or not self._demand.has_room_ahead:
            return False
        if not self.idle.is_set() and self._place == (tenant_id, job_type):
            # Heard twice: from this process and from the server.
            return True
        serves_it = claimant.job_types is None or job_type in claimant.job_types
        now = time.monotonic()
        if not (serves_it and self.idle.is_set()) or now < self._rests_until:
            return False
        self._place = (tenant_id, job_type)
        self._goes_first_until = now + GOES_FIRST_SECONDS
        self.idle.clear()
        self._new.set()
        return True

    async def let_pass(self) -> None:
        """Wait for its call, which is short: a long one would take its processor. All calls together wait once."""
        left = self._goes_first_until - time.monotonic()
        if left > 0:
            await wait_for(self.idle, within=left)

    async def serve(self) -> None:
        """Claim what is offered over one connection, until cancelled. Raises when the server cannot be reached."""
        try:
            await self._is_needed.wait()
            async with self._pool.acquire() as conn:
                await self._warm_up(conn)
                self._is_ready = True
                while True:
                    await self._new.wait()
                    self._new.clear()
                    await self._claim(conn)
                    self.idle.set()
        finally:
            self._is_ready = False
            self.idle.set()

    async def _warm_up(self, conn: Connection) -> None:
        """Make the first call ahead: planning its statements takes longer than twenty others."""
        claimant = self._lease.claimant
        if claimant is not None:
            await claim_of_tenant(conn, claimant, NO_TENANT, "", within=self._lease.seconds)

    async def _claim(self, conn: Connection) -> None:
        claimant, place = self._lease.claimant, self._place
        if claimant is None or place is None:
            return
        began = time.monotonic()
        asked_at = boot_seconds()
        self._demand.in_flight.sent(ONE_AHEAD, finishes=0)
        try:
            turn = await claim_of_tenant(conn, claimant, *place, within=self._lease.seconds)
        finally:
            self._demand.in_flight.returned(ONE_AHEAD, finishes=0)
        now = time.monotonic()
        self._rest = self._next_rest(now - began, has_jobs=bool(turn.claimed))
        self._rests_until = now + self._rest
        self._take(turn, claimant, asked_at)

    def _next_rest(self, took: float, *, has_jobs: bool) -> float:
        least = min(MAX_REST_SECONDS, RESTS * took)
        return least if has_jobs else min(MAX_REST_AFTER_NOTHING_SECONDS, max(least, 2 * self._rest))


@lru_cache(maxsize=1024)
def read_new_job(payload: str) -> tuple[UUID, str, int] | None:
    """The tenant, the type and the priority of an enqueued job; None for any other text.

    Every login may send notifications.
    """
    place, _, job_type = payload.partition(" ")
    tenant, _, priority = place.partition("/")
    try:
        return UUID(tenant), job_type, int(priority or 0)
    except ValueError:
        return None


def read_new_jobs(payload: str) -> list[tuple[UUID, str, int]]:
    """The same of all jobs that it names, of several one in a line. Empty if it names none, or not all."""
    parsed = [read_new_job(line) for line in payload.removeprefix("\n").split("\n")]
    return [] if None in parsed else [job for job in parsed if job is not None]
