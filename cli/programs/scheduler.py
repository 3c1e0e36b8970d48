"""`atlas scheduler`: fires triggers, and runs maintenance and recurring functions."""

import asyncio

from atlas.cli.programs.long_running import run_program
from atlas.cli.programs.worker import App
from atlas.cli.runtime import Atlas
from atlas.cli.terminal.output import Json, say
from atlas.db.prisma import load_client
from atlas.engine.triggers.from_code import sync_code_schedules
from atlas.scheduler.program import CONNECTIONS, SchedulerParts, run_scheduler
from atlas.workers.user_modules import load_apps


def scheduler(app: App = None, json: Json = False) -> None:
    """Run the scheduler until stopped. Any number may run; one of them is the leader."""

    async def work(atlas: Atlas, stop: asyncio.Event) -> None:
        load_apps(app or [])
        load_client()  # now, so that no trigger waits for the import
        await sync_code_schedules(atlas.pool)
        await run_scheduler(SchedulerParts(atlas.pool, atlas.url, atlas.settings), stop)

    run_program(work, size=CONNECTIONS)
    say({"stopped": True}, "The scheduler has stopped.", json=json)
