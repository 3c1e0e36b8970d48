"""Lists and summaries from a standby, if what it shows is young enough.

Twice a second the primary is asked how far its write-ahead log is. A standby that has applied the log up to one of
these positions shows everything that was committed when the position was asked for, so its data is at most as old as
that. The standby is asked within each transaction: behind one address there may be several.
"""

import asyncio
import time
from collections import deque
from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from uuid import UUID

from atlas.api.db import Database
from atlas.db.pool import Connection, Pool, borrow, open_pool
from atlas.db.replica import ReplicaUnusable, WalPosition, is_failure, reason_of, replayed, until_replayed, written
from atlas.errors import DatabaseError, UnsupportedPostgres
from atlas.logs import get_logger

LOOK_SECONDS = 0.5
# A server that has not responded by then is not read from until it does.
RESPONSE_SECONDS = 2.0
# A reader that must see what was just written waits so long for the standby, and then reads from the primary.
CATCH_UP_SECONDS = 0.2

log = get_logger("api")


@dataclass(frozen=True, slots=True)
class _Sample:
    asked_at: float
    wal: WalPosition


class Replica:
    """The standby of one process, and how old its data is. Times are those of the clock that never goes back."""

    def __init__(self, url: str, primary: Pool, *, staleness: float) -> None:
        self.staleness = staleness
        # None until it was reached for the first time.
        self.db: Database | None = None
        self.is_usable = False
        self._url = url
        self._primary = primary
        self._samples: deque[_Sample] = deque()
        self._wrote_at: dict[UUID, float] = {}

    def wrote(self, token_id: UUID) -> None:
        """A request of this caller may have changed something, which its next ones must see."""
        self._wrote_at[token_id] = time.monotonic()

    def read(self, token_id: UUID, *, live: bool) -> "ReplicaRead | None":
        """The reads of a request of this caller; None while the primary has to be read.

        A caller sees what its own requests to this process wrote. A `live` one, a page that reads again because it was
        sent a change, sees everything that was committed before.
        """
        if self.db is None or not self.is_usable:
            return None
        return ReplicaRead(self, self.db, time.monotonic() if live else self._wrote_at.get(token_id, 0.0))

    async def age(self, replica: Connection, *, needed_at: float = 0.0) -> float:
        """How old what this connection shows is at most, in seconds.

        Raises ReplicaUnusable if that is too old, or lacks what was committed before `needed_at`.
        """
        if not self._samples:
            raise ReplicaUnusable("the primary was not asked lately")
        position = await replayed(replica, self._samples[-1].wal)
        applied = (sample.asked_at for sample in reversed(self._samples) if sample.wal.position <= position)
        fresh_at = next(applied, 0.0)
        if fresh_at < needed_at:
            sample = await self._ask()
            await until_replayed(replica, sample.wal, within=CATCH_UP_SECONDS)
            fresh_at = sample.asked_at
        age = time.monotonic() - fresh_at
        if age > self.staleness:
            raise ReplicaUnusable(f"it is more than {self.staleness:g} s behind")
        return age

    async def run(self) -> None:
        """Keep asking both servers, for as long as the process runs."""
        while True:
            try:
                await self._look()
                self._note(usable=True)
            except Exception as error:
                if not (is_failure(error) or isinstance(error, ReplicaUnusable | DatabaseError | UnsupportedPostgres)):
                    raise
                self._note(usable=False, reason=reason_of(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def close(self) -> None:
        """Close the connections to it."""
        if self.db is not None:
            await self.db.pool.close()

    async def _look(self) -> None:
        self._forget(before=time.monotonic() - self.staleness)
        self._samples.append(await self._ask())
        if self.db is None:
            self.db = Database(await open_pool(self._url, size=self._primary.get_max_size(), standby=True))
        async with borrow(self.db.pool, within=RESPONSE_SECONDS) as conn:
            await self.age(conn)

    async def _ask(self) -> _Sample:
        asked_at = time.monotonic()
        async with borrow(self._primary, within=RESPONSE_SECONDS) as conn:
            return _Sample(asked_at, await written(conn))

    def _forget(self, *, before: float) -> None:
        """Forget what is too old to decide anything."""
        while self._samples and self._samples[0].asked_at < before:
            self._samples.popleft()
        self._wrote_at = {id: at for id, at in self._wrote_at.items() if at >= before}

    def _note(self, *, usable: bool, reason: str | None = None) -> None:
        if usable and not self.is_usable:
            log.info("lists are read from the replica")
        elif self.is_usable and not usable:
            log.warning("the replica is not read from for now; the primary is", reason=reason)
        self.is_usable = usable


class ReplicaRead:
    """The transactions of one request on the replica, and how old the oldest data that it saw is."""

    def __init__(self, replica: Replica, db: Database, needed_at: float) -> None:
        self.age = 0.0
        self._replica = replica
        self._db = db
        self._needed_at = needed_at

    def transaction(self, tenant_id: UUID | None, *, share: Hashable) -> AbstractAsyncContextManager[Connection]:
        """A transaction as on the primary, which can only read. Raises ReplicaUnusable."""
        return self._db.transaction(tenant_id, read_only=True, share=share, check=self._check)

    async def _check(self, conn: Connection) -> None:
        self.age = max(self.age, await self._replica.age(conn, needed_at=self._needed_at))
