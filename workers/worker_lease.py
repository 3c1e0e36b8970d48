"""The registration of one worker, and the lease of all its jobs.

A worker that loses its lease, or cannot find out in time whether it still has it, registers again under a new id.
What it held under the old id is not its own any more.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from atlas.db.pool import UNREACHABLE, Pool, borrow
from atlas.engine.jobs.claim import Claimant
from atlas.engine.jobs.finish import Finish, finish_and_claim
from atlas.engine.jobs.lease import heartbeat, new_worker_id, register_worker, retire_worker
from atlas.logs import get_logger

# Before the end of a lease that could not be renewed, so that handlers have stopped when it comes.
STOP_AHEAD_SECONDS = 0.25
RETIRE_SECONDS = 5.0

log = get_logger("worker")


class WorkerLease:
    """`claimant` is None while there is no lease; `worker_id` is then the last id that had one."""

    def __init__(
        self, seconds: float, job_types: Sequence[str], metadata: Mapping[str, Any], *, is_fair: bool = True
    ) -> None:
        self.seconds = seconds
        self.claimant: Claimant | None = None
        self.worker_id = ""
        # What the tokens of its attempts are made with.
        self.key = b""
        # For good: also after it has registered again.
        self.is_asked_to_drain = False
        # Set when the lease may be over: the worker then sends a heartbeat immediately.
        self.heartbeat_now = asyncio.Event()
        self._job_types = job_types
        self._metadata = metadata
        self._is_fair = is_fair
        self._ends_at = 0.0

    @property
    def is_ending(self) -> bool:
        """True when the lease was not renewed and handlers have to stop now."""
        return self.claimant is not None and time.monotonic() >= self._ends_at - STOP_AHEAD_SECONDS

    @property
    def is_late(self) -> bool:
        """True when a heartbeat should have renewed it: half of it has passed, and heartbeats come at every third."""
        return time.monotonic() >= self._ends_at - self.seconds / 2

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at

    async def register(self, pool: Pool) -> None:
        """Begin a lease under an id that was never used before."""
        worker_id, key = new_worker_id(), secrets.token_bytes(32)
        asked_at = time.monotonic()
        async with borrow(pool, within=self.seconds) as conn:
            await register_worker(
                conn, worker_id, lease=self.seconds, job_types=self._job_types, metadata=self._metadata, key=key
            )
        self._ends_at = asked_at + self.seconds
        self.worker_id, self.key = worker_id, key
        self.claimant = Claimant(worker_id, self._job_types, is_fair=self._is_fair)
        log.debug("worker registered", worker_id=worker_id, job_types=list(self._job_types))

    async def renew(self, pool: Pool, *, running: int) -> bool:
        """Send a heartbeat. False: the lease is over. Raises when no response came in time."""
        asked_at = time.monotonic()
        async with borrow(pool, within=min(self.seconds / 3, self._ends_at - asked_at)) as conn:
            renewal = await heartbeat(conn, self.worker_id, lease=self.seconds, running=running)
        if renewal is None:
            return False
        self._ends_at = asked_at + self.seconds
        self.is_asked_to_drain |= renewal.is_draining
        return True

    def lose(self) -> None:
        """Hold no lease until the next registration."""
        self.claimant = None

    async def retire(self, pool: Pool, finishes: Sequence[Finish] = ()) -> None:
        """Record these last outcomes and end the lease. Without a response it expires by itself."""
        try:
            async with borrow(pool, within=RETIRE_SECONDS) as conn:
                if finishes:
                    await finish_and_claim(conn, Claimant(self.worker_id, self._job_types), finishes)
                await retire_worker(conn, self.worker_id)
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            log.warning("worker could not end its lease; it will expire", worker_id=self.worker_id, reason=repr(error))
