"""Programs that are one turn of a loop of the scheduler: `main` runs the one that the first argument names.

They call what the scheduler's tasks call, without what repeats a failed turn: a turn that fails ends its program.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.db.pool import TRANSACTION_SECONDS, Pool, borrow, open_pool
from atlas.engine.jobs.actions.bulk_actions import due_bulk_actions, take_step
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.engine.webhooks import deliver
from atlas.scheduler import audit_tasks, maintenance
from atlas.settings import load_settings

# When a task gives up a connection that went silent: the scheduler does so after ten minutes, which no case waits for.
SILENT_SECONDS = 45.0
# So many deliveries may wait for a webhook that fails.
MAX_WAITING = 3
# When another process takes over what one did for all, and how long this one waits before it looks again.
AGAIN = timedelta(seconds=1)
REST_SECONDS = 0.2
COPIES = "copies"
HAS_VERDICT = (
    "select exists (select from atlas.system_state where key = 'audit_verification' and value->>'status' = 'whole')"
)
HAS_COPY = """
select exists (select from atlas.system_state s, jsonb_each(s.value) place
  where s.key = 'checkpoint_copies' and place.value ? 'at')"""


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


async def verify(pool: Pool) -> None:
    """Verify the audit log, which is due, as soon as no other process does, and again until it is whole."""
    # There is no key before the first signature.
    await seal(pool)
    audit_tasks.LEASE = audit_tasks.RETRY = AGAIN
    while not await pool.fetchval(HAS_VERDICT):
        await audit_tasks.AuditTasks(pool, load_settings()).verify()
        await asyncio.sleep(REST_SECONDS)


async def copy(pool: Pool) -> None:
    """Copy the newest checkpoint to a folder."""
    await seal(pool)
    audit_tasks.LOOK_SECONDS = AGAIN.total_seconds()
    settings = load_settings(atlas_checkpoint_copies=(f"file://{Path.cwd()}/{COPIES}",))
    while not await pool.fetchval(HAS_COPY):
        await audit_tasks.AuditTasks(pool, settings).copy()
        await asyncio.sleep(REST_SECONDS)


def _task(name: str) -> Callable[[Pool], Awaitable[None]]:
    """A task of the scheduler's maintenance, once."""

    async def run(pool: Pool) -> None:
        await getattr(maintenance.Maintenance(pool, asyncio.Event()), name)()

    return run


TASKS = ("sweep", "settle", "watch", "meter", "deliver", "disable_overfull", "prune", "remove")
STEPS = {
    "seal": seal,
    "bulk": take_bulk_steps,
    "fire": fire,
    "verify": verify,
    "copy": copy,
    **{name: _task(name) for name in TASKS},
    # The sweep of retention does these two as well.
    "file": _task("prune"),
    "drop": _task("prune"),
}


def main() -> None:
    """Run one turn on the database of DATABASE_URL."""
    maintenance.BATCH_SECONDS = SILENT_SECONDS
    deliver.MAX_WAITING = MAX_WAITING
    asyncio.run(_run(STEPS[sys.argv[1]]))


async def _run(step: Callable[[Pool], Awaitable[None]]) -> None:
    pool = await open_pool(os.environ["DATABASE_URL"], size=4)
    try:
        await step(pool)
    finally:
        await pool.close()
