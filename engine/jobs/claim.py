"""A turn: finish what is done and claim what is next, in one round trip and one commit.

`claim` and `finish` are a turn with one half empty. The statement is fenced by worker, attempt and lease, and all or
nothing, so that repeating it after a deadlock or a broken connection is safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any
from uuid import UUID

import asyncpg

from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.deadlocks import DEADLOCK_TRIES
from atlas.engine.jobs.verdicts import ClaimedJob, Finish

CLAIM = statement("engine/jobs/sql/claim.sql")
TURN = statement("engine/jobs/sql/turn.sql")
SOLO_WAITS = statement("engine/jobs/sql/solo_waits.sql")

# A job that was lost so often runs alone.
ALONE_AFTER_LOSSES = 2

# What the outcomes of a batch often share; sent once where they do.
_SHARED = {
    "attempts": attrgetter("attempt"),
    "statuses": attrgetter("status"),
    "actions": attrgetter("action"),
    "levels": attrgetter("level"),
    "messages": attrgetter("message"),
    "metas": attrgetter("meta"),
}
_COLUMNS = {
    "outputs": attrgetter("output"),
    "errors": attrgetter("error"),
    "delays": attrgetter("delay"),
    "used": attrgetter("used"),
    "costs": attrgetter("cost"),
    "bodies": attrgetter("body"),
    "details": attrgetter("detail"),
    "privates": attrgetter("private"),
}
_by_id = attrgetter("job_id.bytes")


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims: a worker process under its own lease, or someone whose jobs carry a lease each (`lease` seconds)."""

    id: str
    job_types: Sequence[str] | None
    lease: float | None = None


@dataclass(slots=True)
class Turn:
    """What a turn brought."""

    claimed: list[ClaimedJob] = field(default_factory=list)
    lost: list[tuple[UUID, int]] = field(default_factory=list)
    canceled: list[tuple[UUID, int]] = field(default_factory=list)
    closed: bool = False
    again: bool = False
    # A job that must run alone waits for a claimant with empty hands.
    solo_waits: bool = False

    @property
    def is_empty(self) -> bool:
        """True when there was surely nothing to claim."""
        return not (self.claimed or self.closed or self.again or self.solo_waits)


async def take_turn(
    conn: Connection,
    claimant: Claimant,
    finishes: Sequence[Finish] = (),
    *,
    slots: int = 0,
    prefetch: int = 0,
    alone: bool = False,
    within: float | None = None,
) -> Turn:
    """Finish, then claim up to `slots` jobs to run now and `prefetch` more to run next.

    Without an answer `within` that many seconds it raises TimeoutError, and nobody knows whether the turn was taken.
    `alone` says that nothing else is held: a job that was lost twice may then be the one thing that is claimed.
    A finish whose lease was lost, or that would requeue a job asked to stop, changes nothing and is named.
    """
    # In a transaction of the caller's, how safely it commits is the caller's to say.
    query = TURN if finishes or conn.is_in_transaction() else CLAIM
    values = _asked(claimant, slots, prefetch, alone=alone)
    if query is TURN:
        values |= _ended(sorted(finishes, key=_by_id))
    bound = query.bind(values)
    for remaining in range(DEADLOCK_TRIES, 0, -1):
        try:
            return _read(await conn.fetch(query.sql, *bound, timeout=within))
        except asyncpg.DeadlockDetectedError:
            if remaining == 1 or conn.is_in_transaction():
                raise
    raise AssertionError("unreachable")


async def claim(conn: Connection, claimant: Claimant, *, limit: int) -> list[ClaimedJob]:
    """Take up to `limit` due jobs. Fewer, or none, is an ordinary answer; jobs others are claiming are passed over.

    Whoever calls this runs what it took before it takes more: a job that was lost twice comes by itself.
    """
    return (await take_turn(conn, claimant, slots=limit, alone=True)).claimed


async def finish(conn: Connection, claimant: Claimant, finishes: Sequence[Finish]) -> Turn:
    """Record outcomes; the answer names those that were refused."""
    return await take_turn(conn, claimant, finishes)


async def solo_waits(conn: Connection, job_types: Sequence[str]) -> bool:
    """True while a job that must run alone waits for someone who serves these types."""
    return bool(await fetch_value(conn, SOLO_WAITS, types=list(job_types)))


def _asked(claimant: Claimant, slots: int, prefetch: int, *, alone: bool) -> dict[str, Any]:
    return {
        "worker": claimant.id,
        "slots": slots,
        "prefetch": prefetch,
        "types": claimant.job_types,
        "lease": claimant.lease,
        "alone": alone,
    }


def _ended(ordered: list[Finish]) -> dict[str, Any]:
    values: dict[str, Any] = {"ids": [one.job_id for one in ordered]}
    for name, read in _SHARED.items():
        column = list(map(read, ordered))
        values[name] = column[:1] if column.count(column[0] if column else None) == len(column) else column
    for name, read in _COLUMNS.items():
        column = list(map(read, ordered))
        values[name] = None if column.count(None) == len(column) else column
    return values


def _read(rows: Sequence[Any]) -> Turn:
    turn = Turn()
    claimed = turn.claimed
    for row in rows:
        match row[0]:
            case b"c":
                claimed.append(ClaimedJob(*row[1:]))
            case b"l":
                turn.lost.append((row[1], row[5]))
            case b"k":
                turn.canceled.append((row[1], row[5]))
            case b"x":
                turn.closed = True
            case b"s":
                turn.solo_waits = True
            case _:
                turn.again = True
    return turn
