"""`atlas scheduler`: lets triggers fire, and does what has to be done now and then."""

import asyncio

from cli.output import Json, say
from cli.programs import run_program
from cli.runtime import Atlas
from cli.worker import App
from scheduler.program import CONNECTIONS, SchedulerParts, run_scheduler
from workers.apps import load_apps


def scheduler(app: App = None, json: Json = False) -> None:
    """Run the scheduler until stopped. Any number may run; one of them leads."""

    async def work(atlas: Atlas, stop: asyncio.Event) -> None:
        load_apps(app or [])
        await run_scheduler(SchedulerParts(atlas.pool, atlas.url, atlas.settings), stop)

    run_program(work, size=CONNECTIONS)
    say({"stopped": True}, "The scheduler has stopped.", json=json)
