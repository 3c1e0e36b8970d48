"""The scheduler as a program: triggers, recurring functions, the sealer and maintenance, as tasks of APScheduler."""

import asyncio
from dataclasses import dataclass

from atlas.audit.sealing.sealer import SEAL_SECONDS, Sealer
from atlas.db.notifications import Listener
from atlas.db.pool import Pool
from atlas.engine.running_programs import report_running
from atlas.errors import AtlasError
from atlas.scheduler.audit_tasks import AuditTasks
from atlas.scheduler.firing import TriggerTask
from atlas.scheduler.leader import Leader
from atlas.scheduler.maintenance import Maintenance
from atlas.scheduler.recurring import Recurring, starters
from atlas.scheduler.tasks import TaskScheduler
from atlas.settings import Settings

CHANNELS = ("gate", "events", "triggers")
# Triggers, nine maintenance tasks, the sealer, two more for the audit log, the recurring functions, and their runs.
CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """What a scheduler needs to run."""

    pool: Pool
    url: str
    settings: Settings


async def run_scheduler(parts: SchedulerParts, stop: asyncio.Event) -> None:
    """Run one scheduler until the stop event is set. Any number may run; one of them leads."""
    tasks = TaskScheduler()
    triggers = TriggerTask(parts.pool, Leader(parts.url, tasks), tasks)
    tasks.add(SEAL_SECONDS, Sealer(parts.pool, parts.settings).seal)
    Maintenance(parts.pool, stop).add_to(tasks)
    AuditTasks(parts.pool, parts.settings).add_to(tasks)
    listener = Listener(parts.url, CHANNELS, lambda channel, payload: triggers.task.wake())
    listener.start()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(tasks.run(stop))
            group.create_task(_run_recurring(parts.pool, stop))
            group.create_task(report_running(parts.pool, "scheduler", stop))
    except BaseExceptionGroup as errors:
        # The caller shows one error, such as a key file that cannot be read, not a group.
        raise _own_error(errors) or errors from None
    finally:
        await listener.stop()


def _own_error(error: BaseException) -> AtlasError | None:
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_own_error, error.exceptions)), None)
    return error if isinstance(error, AtlasError) else None


async def _run_recurring(pool: Pool, stop: asyncio.Event) -> None:
    recurring = Recurring(pool)
    await recurring.start()
    try:
        for starter in starters():
            await starter(recurring)
        await stop.wait()
    finally:
        await recurring.cancel()
