"""Retention: what is finished and past its age goes, in small batches. The audit keeps what happened to it.

Ended jobs are looked at by their ids, which carry the time they were made: a sweep of a tenant reads the old ones,
passes over the young ones between, and reads those whose ids were not made by Atlas and tell no time. What is looked
at and kept, such as dead letters, is not looked at again before the next sweep. Intents and approvals go after the runs
they belong to.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import BATCH_SECONDS, Connection, Pool, Queryable, borrow
from atlas.db.statements import Statement, fetch, fetch_row, statement

AGES = statement("engine/sql/retention_ages.sql")
PRUNE_JOBS = statement("engine/sql/prune_jobs.sql")
PRUNE_INTENTS = statement("engine/sql/prune_intents.sql")
PRUNE_EVENTS = statement("engine/sql/prune_events.sql")
FORGET_WORKERS = statement("engine/sql/forget_workers.sql")

# Days, where a tenant says nothing. `null` in a tenant's own ages keeps that kind for ever.
DEFAULT_DAYS: Mapping[str, float | None] = {"jobs": 30, "attempts": 30, "events": 30, "steps": 30}
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
        """What ended before this moment goes."""
        days = self.days[kind]
        return None if days is None or days >= FOR_EVER_DAYS else self.now - timedelta(days=days)


async def read_ages(conn: Queryable) -> list[Ages]:
    """The ages of every tenant, with the database's time."""
    rows = await conn.fetch(AGES.sql)
    return [Ages(row["id"], row["now"], _known(orjson.loads(row["retention"]))) for row in rows]


async def prune(pool: Pool, ages: Ages, *, batch: int = BATCH) -> AsyncIterator[Pruned]:
    """Sweep one tenant, a batch and a transaction at a time; the caller may rest between them."""
    async for removed in _sweep_jobs(pool, ages, batch):
        yield removed
    async for removed in _sweep_intents(pool, ages, batch):
        yield removed
    before = ages.before("events")
    while before is not None:
        async with borrow(pool, within=BATCH_SECONDS) as conn:
            row = await fetch_row(conn, PRUNE_EVENTS, tenant_id=ages.tenant_id, before=before, limit=batch)
        assert row is not None
        yield Pruned(events=row["events"], fires=row["fires"])
        if max(row["events"], row["fires"]) < batch:
            return


async def forget_workers(conn: Connection) -> int:
    """Remove the rows of workers that ended a day ago and hold nothing. Answers how many."""
    return len(await fetch(conn, FORGET_WORKERS))


async def _sweep_jobs(pool: Pool, ages: Ages, batch: int) -> AsyncIterator[Pruned]:
    moments = {f"{kind}_before": ages.before(kind) for kind in ("jobs", "attempts", "steps")}
    told = [moment for moment in moments.values() if moment is not None]
    if told:
        async for row in _walk(pool, PRUNE_JOBS, ages, max(told), batch, moments):
            yield Pruned(jobs=row["jobs"] or 0, attempts=row["attempts"] or 0, steps=row["steps"] or 0)


async def _sweep_intents(pool: Pool, ages: Ages, batch: int) -> AsyncIterator[Pruned]:
    """An intent is kept as long as a job; it goes after the run that it became."""
    before = ages.before("jobs")
    if before is not None:
        async for row in _walk(pool, PRUNE_INTENTS, ages, before, batch, {"before": before}):
            yield Pruned(intents=row["intents"], approvals=row["approvals"])


async def _walk(
    pool: Pool, query: Statement, ages: Ages, until: datetime, batch: int, moments: Mapping[str, datetime | None]
) -> AsyncIterator[Any]:
    """Let a statement look at a tenant's rows by id, a batch at a time: the old ones, then those that tell no time."""
    for after, end in ((_FIRST, id_at(until + _SLACK)), (id_at(ages.now + _SLACK), _LAST)):
        while True:
            async with borrow(pool, within=BATCH_SECONDS) as conn:
                row = await fetch_row(
                    conn, query, tenant_id=ages.tenant_id, after=after, until=end, limit=batch, **moments
                )
            assert row is not None
            yield row
            if row["looked"] < batch:
                break
            after = row["last"]


def id_at(moment: datetime) -> UUID:
    """The least of the ids that are made at a moment; none is older than 1970."""
    return UUID(int=max(0, int(moment.astimezone(UTC).timestamp() * 1000)) << 80)


def _known(stored: Any) -> dict[str, float | None]:
    """A tenant's own ages over the usual ones; what cannot be an age is passed over, and the usual one holds."""
    own = stored if isinstance(stored, dict) else {}
    return {kind: own[kind] if kind in own and _is_age(own[kind]) else days for kind, days in DEFAULT_DAYS.items()}


def _is_age(days: Any) -> bool:
    return days is None or (isinstance(days, int | float) and not isinstance(days, bool) and days >= 1)
