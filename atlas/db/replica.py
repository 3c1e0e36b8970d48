"""Reads from a standby: whether it is one of this primary's, and whether it has what a reader must see.

Positions in the write-ahead log are compared, not clocks: a position is read from the primary, and a standby that has
applied the log up to there shows everything that was committed before. On an idle primary that stays true, and a
standby that is cut off shows itself as soon as the primary writes.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import asyncpg

from atlas.db.pool import UNREACHABLE, Connection, open_pool
from atlas.db.statements import fetch_row, statement
from atlas.errors import DatabaseError, UnsupportedPostgres
from atlas.logs import get_logger
from atlas.settings import Settings

WRITTEN = statement("atlas/db/sql/wal_written.sql")
REPLAYED = statement("atlas/db/sql/wal_replayed.sql")

POLL_SECONDS = 0.01

_FAILURES = (*UNREACHABLE, asyncpg.PostgresError)
T = TypeVar("T")

log = get_logger("replica")


class ReplicaUnusable(Exception):
    """The server is no standby of this primary, or lacks what the reader must see."""


class TimelineUnknown(ReplicaUnusable):
    """The server lacks the row that says since which failover this primary writes. It may arrive."""


@dataclass(frozen=True, slots=True)
class WalPosition:
    """A position in the write-ahead log of a cluster, on the timeline of its primary."""

    position: int
    cluster: int
    timeline: int


async def written(primary: Connection) -> WalPosition:
    """How far the primary is. Where its timeline is a new one, that is written down for its standbys to show."""
    row = await fetch_row(primary, WRITTEN)
    assert row is not None
    return WalPosition(**row)


async def replayed(replica: Connection, primary: WalPosition) -> int:
    """How far a standby of this primary is. Raises ReplicaUnusable if it is none."""
    row = await fetch_row(replica, REPLAYED)
    assert row is not None
    if row["cluster"] != primary.cluster:
        raise ReplicaUnusable("it belongs to another cluster")
    if row["position"] is None:
        raise ReplicaUnusable("it is not a standby")
    if row["timeline"] != primary.timeline:
        raise TimelineUnknown("it does not follow the primary that a failover has made")
    return int(row["position"])


async def until_replayed(replica: Connection, position: WalPosition, *, within: float) -> None:
    """Wait until a standby is as far as this. Raises ReplicaUnusable if it takes longer."""
    ends_at = time.monotonic() + within
    while True:
        try:
            if await replayed(replica, position) >= position.position:
                return
            lacking = ReplicaUnusable(f"it lacks what the primary had {within:g} s ago")
        except TimelineUnknown as error:
            lacking = error
        if time.monotonic() > ends_at:
            raise lacking
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def caught_up(settings: Settings, primary: Connection) -> AsyncIterator[Connection]:
    """A connection to the replica, once it shows all that the primary shows now.

    The primary itself where there is no replica, or it takes longer than the allowed staleness.
    """
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(settings.atlas_read_staleness_seconds):
                reading = await _open(settings, primary, stack)
        except (*_FAILURES, DatabaseError, UnsupportedPostgres, ReplicaUnusable) as error:
            log.warning("the replica cannot be read; the primary is", reason=reason_of(error))
            reading = primary
        yield reading


async def read_first(settings: Settings, primary: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Do a read on the replica, as above; and on the primary if the replica fails meanwhile."""
    async with caught_up(settings, primary) as reading:
        try:
            return await work(reading)
        except Exception as error:
            if reading is primary or not is_failure(error):
                raise
            log.warning("a read from the replica failed; the primary repeats it", reason=reason_of(error))
    return await work(primary)


def is_failure(error: BaseException) -> bool:
    """Whether the database raised it: a broken connection, or a statement that was canceled for what it must replay."""
    # Prisma's errors have the database's as their cause.
    return isinstance(error, _FAILURES) or isinstance(error.__cause__, _FAILURES)


def reason_of(error: BaseException) -> str:
    """The error in words, for logs."""
    return str(error) or type(error).__name__


async def _open(settings: Settings, primary: Connection, stack: AsyncExitStack) -> Connection:
    if settings.atlas_read_database_url is None:
        return primary
    position = await written(primary)
    pool = await open_pool(settings.atlas_read_database_url, size=1, standby=True)
    stack.push_async_callback(pool.close)
    conn: Connection = await stack.enter_async_context(pool.acquire())
    await until_replayed(conn, position, within=settings.atlas_read_staleness_seconds)
    return conn
