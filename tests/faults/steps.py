"""Programs that are one turn of a loop of the scheduler: `main` runs the one that the first argument names.

They call what the scheduler's tasks call, without what repeats a failed turn: a turn that fails ends its program.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.db.pool import TRANSACTION_SECONDS, Pool, borrow, open_pool
from atlas.engine.jobs.actions.bulk_actions import due_bulk_actions, take_step
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.scheduler import maintenance
from atlas.settings import load_settings

# When a task gives up a connection that went silent: the scheduler does so after ten minutes, which no case waits for.
SILENT_SECONDS = 45.0


async def seal(pool: Pool) -> None:
    """Seal and sign the audit log."""
    await seal_and_sign(pool, load_settings())


async def take_bulk_steps(pool: Pool) -> None:
    """Go on with bulk actions, ten jobs at a time."""
    while due := await due_bulk_actions(pool):
        async with borrow(pool, within=SILENT_SECONDS) as conn:
            await take_step(conn, due[0], most=10)


async def fire(pool: Pool) -> None:
    """Fire the schedules that are due."""
    async with borrow(pool, within=TRANSACTION_SECONDS) as conn:
        await fire_due(conn)


def _task(name: str) -> Callable[[Pool], Awaitable[None]]:
    """A task of the scheduler's maintenance, once."""

    async def run(pool: Pool) -> None:
        await getattr(maintenance.Maintenance(pool, asyncio.Event()), name)()

    return run


STEPS = {
    "seal": seal,
    "bulk": take_bulk_steps,
    "fire": fire,
    **{name: _task(name) for name in ("sweep", "settle", "meter", "deliver", "prune", "remove")},
    # The sweep of retention does these two as well.
    "file": _task("prune"),
    "drop": _task("prune"),
}


def main() -> None:
    """Run one turn on the database of DATABASE_URL."""
    maintenance.BATCH_SECONDS = SILENT_SECONDS
    asyncio.run(_run(STEPS[sys.argv[1]]))


async def _run(step: Callable[[Pool], Awaitable[None]]) -> None:
    pool = await open_pool(os.environ["DATABASE_URL"], size=4)
    try:
        await step(pool)
    finally:
        await pool.close()
