"""History: keeps finished jobs apart from those that workers and people act on, and drops them by the day.

The scheduler moves a finished job, some hours after its end, into a table of history: a child of `jobs`, one for each
number of days for which tenants keep their jobs and for each day on which the jobs finished. Its attempts, steps and
other rows go into tables beside it. Reads of `jobs` see all of them; statements about unfinished jobs read `only jobs`.
When all jobs of a table are past their age, it is dropped. A job that is retried comes back first; so do the jobs of a
tenant that changes its age, which are then filed or removed.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from atlas.db.pool import BATCH_SECONDS, Pool, Queryable, borrow
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.retention.retention import BATCH, FOR_EVER_DAYS, Ages, read_ages
from atlas.logs import get_logger

MOVE = statement("engine/retention/sql/move_to_history.sql")
RETURN = statement("engine/retention/sql/return_from_history.sql")
EXPIRED = statement("engine/retention/sql/expired_history.sql")
DROP = statement("engine/retention/sql/drop_history_part.sql")
COUNT = statement("engine/retention/sql/count_unfiled.sql")

MIN_KEEP_DAYS = 3
# How often a sweep tries to drop a table that is being read, and for how long it lets others read it in between.
MAX_TRIES = 10
TRY_REST_SECONDS = 0.5
# Jobs that one transaction moves.
MOVED_TOGETHER = 1_000
# Of finished jobs that are yet to be moved; beyond it they are estimated.
MAX_COUNTED = 100_000

log = get_logger("history")


@dataclass(frozen=True, slots=True)
class UnfiledJobs:
    """How many finished jobs are yet to be moved into history."""

    jobs: int
    is_estimated: bool


def keep_days(ages: Ages) -> int | None:
    """For how many whole days a tenant keeps its jobs; None for ever."""
    days = ages.days["jobs"]
    return None if days is None or days >= FOR_EVER_DAYS else math.ceil(days)


def is_filed(ages: Ages) -> bool:
    """Whether a tenant's jobs go into history: those that are removed within days are not worth moving."""
    days = keep_days(ages)
    return days is None or days >= MIN_KEEP_DAYS


def keeps_whole(ages: Ages) -> bool:
    """Whether a tenant keeps attempts and steps for as long as its jobs."""
    jobs, others = ages.before("jobs"), (ages.before("attempts"), ages.before("steps"))
    return all(before is None or (jobs is not None and before <= jobs) for before in others)


async def return_jobs(pool: Pool, ages: Ages, *, batch: int = BATCH) -> AsyncIterator[int]:
    """Bring back the jobs of a tenant that were filed under another age, one transaction a batch.

    Yields how many jobs a batch brought back.
    """
    chosen = {"keep_days": keep_days(ages), "whole": keeps_whole(ages)}
    while True:
        async with borrow(pool, within=BATCH_SECONDS) as conn:
            returned: int = await fetch_value(conn, RETURN, tenant_id=ages.tenant_id, limit=batch, **chosen)
        if not returned:
            return
        yield returned


async def file_jobs(pool: Pool, tenants: Sequence[Ages], *, batch: int = MOVED_TOGETHER) -> AsyncIterator[int]:
    """Move finished jobs into history, one transaction a batch, those of all tenants with the same ages together.

    Yields how many jobs a batch moved.
    """
    alike: dict[tuple[int | None, bool], list[UUID]] = defaultdict(list)
    for ages in tenants:
        if is_filed(ages):
            alike[keep_days(ages), keeps_whole(ages)].append(ages.tenant_id)
    try:
        for (days, whole), ids in alike.items():
            start: UUID | None = UUID(int=0)
            while start is not None:
                async with borrow(pool, within=BATCH_SECONDS) as conn:
                    row = await fetch_row(
                        conn, MOVE, tenants=ids, start=start, limit=batch, keep_days=days, whole=whole
                    )
                assert row is not None
                start = row["next_id"]
                yield row["moved"]
    except asyncpg.LockNotAvailableError:
        log.info("jobs are being brought back from history, and others are moved later")


async def drop_expired(pool: Pool, tenants: Sequence[Ages]) -> AsyncIterator[int]:
    """Drop the tables of history whose jobs are all past their age. Yields how many jobs each held.

    One that is being read at every try, or still holds jobs of a tenant that changed its age, is dropped by the next
    sweep.
    """
    async with borrow(pool, within=BATCH_SECONDS) as conn:
        expired = await fetch(conn, EXPIRED)
    for tried in range(MAX_TRIES):
        if tried and expired:
            await asyncio.sleep(TRY_REST_SECONDS)
        read = []
        for part in expired:
            others = [ages.tenant_id for ages in tenants if keep_days(ages) != part["keep_days"]]
            try:
                async with borrow(pool, within=BATCH_SECONDS) as conn:
                    dropped = await fetch_value(conn, DROP, part=part["name"], others=others)
            except asyncpg.LockNotAvailableError:
                read.append(part)
                continue
            if dropped is not None:
                yield dropped
        expired = read
    for part in expired:
        log.info("a table of history is being read, and is dropped later", table=part["name"])


async def count_unfiled(conn: Queryable) -> UnfiledJobs:
    """How many finished jobs the sweep has yet to move; after an upgrade that is all of them."""
    tenants = [ages.tenant_id for ages in await read_ages(conn) if is_filed(ages)]
    row = await conn.fetchrow(COUNT.sql, *COUNT.bind({"tenants": tenants, "most": MAX_COUNTED}))
    assert row is not None
    return UnfiledJobs(**row)
