"""Retention: removes what is finished and past its age, in small batches. The audit log keeps what happened to it.

A sweep reads a tenant's ended jobs by id, and ids carry their creation time. It reads the old ones, skips the young
ones, and reads those whose ids were not made by Atlas and carry no time. What it keeps, such as dead letters, is not
read again before the next sweep. Intents and approvals are removed after the runs they belong to.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import BATCH_SECONDS, Connection, Pool, Queryable, borrow
from atlas.db.statements import Statement, fetch, fetch_row, statement

AGES = statement("engine/retention/sql/retention_ages.sql")
PRUNE_JOBS = statement("engine/retention/sql/prune_jobs.sql")
PRUNE_INTENTS = statement("engine/retention/sql/prune_intents.sql")
PRUNE_EVENTS = statement("engine/retention/sql/prune_events.sql")
PRUNE_RECURRING = statement("engine/retention/sql/prune_recurring.sql")
FORGET_WORKERS = statement("engine/retention/sql/forget_workers.sql")
FORGET_LIMITS = statement("engine/retention/sql/forget_limits.sql")

# Days, if a tenant has no ages of its own. `null` in a tenant's own ages keeps that kind for ever.
DEFAULT_DAYS: Mapping[str, float | None] = {"jobs": 30, "attempts": 30, "events": 30, "steps": 30, "recurring": 30}
FOR_EVER_DAYS = 100_000
BATCH = 500
_FIRST = UUID(int=0)
_LAST = UUID(int=2**128 - 1)
# Ids are made by the clocks of many machines.
_SLACK = timedelta(days=1)


@dataclass(slots=True)
class Pruned:
    """What one batch removed."""

    jobs: int = 0
    attempts: int = 0
    steps: int = 0
    intents: int = 0
    approvals: int = 0
    events: int = 0
    fires: int = 0
    # Runs of recurring functions.
    recurring: int = 0

    @property
    def total(self) -> int:
        return sum(astuple(self))


@dataclass(frozen=True, slots=True)
class Ages:
    """How old each kind may become in a tenant; None keeps it for ever."""

    tenant_id: UUID
    now: datetime
    days: Mapping[str, float | None]

    def before(self, kind: str) -> datetime | None:
        """What ended before this time is removed."""
        days = self.days[kind]
        return None if days is None or days >= FOR_EVER_DAYS else self.now - timedelta(days=days)


async def read_ages(conn: Queryable) -> list[Ages]:
    """The ages of every tenant, with the database's time."""
    rows = await conn.fetch(AGES.sql)
    return [Ages(row["id"], row["now"], ages_of(orjson.loads(row["retention"]))) for row in rows]


async def prune(pool: Pool, ages: Ages, *, batch: int = BATCH) -> AsyncIterator[Pruned]:
    """Sweep one tenant, one transaction a batch; the caller may wait between batches."""
    for sweep in (_sweep_jobs, _sweep_intents, _sweep_events, _sweep_recurring):
        async for removed in sweep(pool, ages, batch):
            yield removed


async def forget_workers(conn: Connection) -> int:
    """Remove the rows of workers that ended a day ago and hold nothing. Returns how many."""
    return len(await fetch(conn, FORGET_WORKERS))


async def forget_limits(conn: Connection) -> int:
    """Remove the buckets of rates that have been full and unused for an hour. Returns how many."""
    return len(await fetch(conn, FORGET_LIMITS))


async def _sweep_jobs(pool: Pool, ages: Ages, batch: int) -> AsyncIterator[Pruned]:
    limits = {f"{kind}_before": ages.before(kind) for kind in ("jobs", "attempts", "steps")}
    cutoffs = [before for before in limits.values() if before is not None]
    if cutoffs:
        async for row in walk(pool, PRUNE_JOBS, ages, max(cutoffs), batch, limits):
            yield Pruned(jobs=row["jobs"] or 0, attempts=row["attempts"] or 0, steps=row["steps"] or 0)


async def _sweep_intents(pool: Pool, ages: Ages, batch: int) -> AsyncIterator[Pruned]:
    """Remove intents at the age of jobs, after the run that each became."""
    before = ages.before("jobs")
    if before is not None:
        async for row in walk(pool, PRUNE_INTENTS, ages, before, batch, {"before": before}):
            yield Pruned(intents=row["intents"], approvals=row["approvals"])


async def _sweep_events(pool: Pool, ages: Ages, batch: int) -> AsyncIterator[Pruned]:
    async for row in _repeat(pool, PRUNE_EVENTS, ages, "events", batch):
        yield Pruned(events=row["events"], fires=row["fires"])


async def _sweep_recurring(pool: Pool, ages: Ages, batch: int) -> AsyncIterator[Pruned]:
    async for row in _repeat(pool, PRUNE_RECURRING, ages, "recurring", batch):
        yield Pruned(recurring=row["runs"])


async def _repeat(pool: Pool, query: Statement, ages: Ages, kind: str, batch: int) -> AsyncIterator[Any]:
    """Run a statement that removes the oldest rows of a tenant, until it removes less than a batch."""
    before = ages.before(kind)
    while before is not None:
        async with borrow(pool, within=BATCH_SECONDS) as conn:
            row = await fetch_row(conn, query, tenant_id=ages.tenant_id, before=before, limit=batch)
        assert row is not None
        yield row
        if max(row.values()) < batch:
            return


async def walk(
    pool: Pool, query: Statement, ages: Ages, until: datetime, batch: int, limits: Mapping[str, Any]
) -> AsyncIterator[Any]:
    """Run a statement over a tenant's rows by id, in batches: the old ones, then those whose ids carry no time."""
    for after, end in ((_FIRST, id_at(until + _SLACK)), (id_at(ages.now + _SLACK), _LAST)):
        while True:
            async with borrow(pool, within=BATCH_SECONDS) as conn:
                row = await fetch_row(
                    conn, query, tenant_id=ages.tenant_id, after=after, until=end, limit=batch, **limits
                )
            assert row is not None
            yield row
            if row["looked"] < batch:
                break
            after = row["last"]


def id_at(time: datetime) -> UUID:
    """The smallest id that is made at a time; none is older than 1970."""
    return UUID(int=max(0, int(time.astimezone(UTC).timestamp() * 1000)) << 80)


def ages_of(stored: Any) -> dict[str, float | None]:
    """The default ages, replaced by a tenant's own where these are valid."""
    own = stored if isinstance(stored, dict) else {}
    return {kind: own[kind] if kind in own and _is_age(own[kind]) else days for kind, days in DEFAULT_DAYS.items()}


def _is_age(days: Any) -> bool:
    return days is None or (isinstance(days, int | float) and not isinstance(days, bool) and days >= 1)
