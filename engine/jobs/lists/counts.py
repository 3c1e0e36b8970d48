"""Counts of jobs by tenant and status, for summaries of what is too much to be counted each time.

The table is counted once. From then on the meter adds what the audit log says, so that enqueue, claim and finish do
nothing for it. The scheduler repeats the count, at most once an hour and the less often the longer it takes. It is also
repeated where the server has inserted rows that the audit log does not know: then someone has loaded them past Atlas.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import asyncpg

from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.engine.metering.usage import meter_usage
from atlas.errors import AtlasError

COUNT_JOBS = statement("engine/jobs/lists/sql/count_jobs.sql")
STATE = statement("engine/jobs/lists/sql/counts_state.sql")

COUNT_AGAIN_SECONDS = 3600.0
# A count reads every job: of this many seconds, at most one is spent on repeating it.
SECONDS_PER_COUNTED_SECOND = 1000.0
# Rows that the counts do not know: fewer are transactions that were rolled back, or the lag of the server's figures.
MAX_UNKNOWN = 1000
MAX_UNKNOWN_SHARE = 0.01
# Of the meter, for one summary: a caller does not wait for the rest of a long backlog.
BATCHES = 3
BUSY_TRIES = 10
BUSY_SECONDS = 0.02

# Opens a transaction.
Transaction: TypeAlias = Callable[[], AbstractAsyncContextManager[Connection]]


async def counts_are_due(conn: Connection) -> bool:
    """Whether the scheduler counts the table anew."""
    state = await fetch_row(conn, STATE)
    if state is None or _is_uncounted(state):
        return True
    return bool(state["age"] > max(COUNT_AGAIN_SECONDS, state["seconds"] * SECONDS_PER_COUNTED_SECOND))


async def count_jobs(conn: Connection) -> bool:
    """Count the table anew. Returns False if another process is at the counts."""
    return bool(await fetch_value(conn, COUNT_JOBS))


async def update_counts(transaction: Transaction) -> bool:
    """Bring the counts up to now, and return whether they are: a long backlog of the meter is left to the scheduler.

    Returns False as well where nothing can be written: the counts are then as old as the disk has been full, say.
    """
    try:
        for _ in range(BATCHES):
            async with transaction() as conn:
                # A caller does not wait for a repetition.
                state = await fetch_row(conn, STATE)
                if state is None or _is_uncounted(state):
                    return await count_jobs(conn)
                if await _meter(conn) is False:
                    return True
    except (asyncpg.PostgresError, AtlasError):
        pass
    return False


def _is_uncounted(state: Mapping[str, Any]) -> bool:
    """Whether the table was never counted in this cluster, or holds many rows that the counts do not know."""
    return state["age"] is None or bool(state["unknown"] > max(MAX_UNKNOWN, state["jobs"] * MAX_UNKNOWN_SHARE))


async def _meter(conn: Connection) -> bool | None:
    """Meter one batch, after another process that is at it."""
    more = await meter_usage(conn)
    for _ in range(BUSY_TRIES):
        if more is not None:
            break
        await asyncio.sleep(BUSY_SECONDS)
        more = await meter_usage(conn)
    return more
