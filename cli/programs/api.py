"""`atlas api`: serves the API over HTTP, in one process or several on one port."""

import asyncio
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
import uvicorn
from structlog.contextvars import bind_contextvars

from atlas.api.caches.change_signals import ChangeSignals
from atlas.api.metrics.process_metrics import ApiProcess
from atlas.cli.connection.needs_database import require_database
from atlas.cli.programs.long_running import copies, run_program
from atlas.cli.programs.ports import RELEASE_SECONDS, bind_shared, require_port
from atlas.cli.programs.process_group import run_group
from atlas.cli.programs.worker import App
from atlas.cli.runtime import Atlas, execute
from atlas.cli.terminal.output import Json, say
from atlas.logs import get_logger
from atlas.settings import Settings
from atlas.workers.tick import Ticker
from atlas.workers.user_modules import load_apps

# A request holds a connection for as long as its statement takes; batched requests share one.
CONNECTIONS = 20

log = get_logger("api")


def api(
    app: App = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; ATLAS_HOST if not given.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="ATLAS_PORT if not given.")] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Processes that share the port; on Linux.")] = 1,
    json: Json = False,
) -> None:
    """Serve the API until stopped. Any number may run, on any number of machines."""
    if processes > 1:
        status = _run_many(processes, host, port)
        say({"stopped": True}, "The API has stopped.", json=json)
        raise typer.Exit(status)

    async def work(atlas: Atlas, stop: asyncio.Event) -> None:
        load_apps(app or [])
        await serve(atlas, stop)

    run_program(work, size=CONNECTIONS, atlas_host=host, atlas_port=port)
    say({"stopped": True}, "The API has stopped.", json=json)


async def serve(atlas: Atlas, stop: asyncio.Event) -> None:
    """Serve requests until `stop` is set."""
    # Imported here: it takes a second to load, which no other command should wait for.
    from atlas.api.app import create_app
    from atlas.api.http.server import http_server

    settings = atlas.settings
    process = ApiProcess.of(os.environ)
    if process is not None:
        bind_contextvars(process=process.number)
        sockets = bind_shared(settings.atlas_host, settings.atlas_port)
    else:
        await require_port(settings.atlas_host, settings.atlas_port, within=RELEASE_SECONDS)
        sockets = None
    app = create_app(settings, atlas.pool, atlas.url, tick=Ticker(settings), process=process)
    server = http_server(app, app.state.api.clients, host=settings.atlas_host, port=settings.atlas_port)
    stopping = asyncio.create_task(_stop_when(stop, server, app.state.signals))
    log.info("the API listens", host=settings.atlas_host, port=settings.atlas_port)
    try:
        await server.serve(sockets)
    finally:
        stopping.cancel()


async def _stop_when(stop: asyncio.Event, server: uvicorn.Server, hints: ChangeSignals) -> None:
    await stop.wait()
    hints.close()
    server.should_exit = True


def _run_many(processes: int, host: str | None, port: int | None) -> int:
    """Run the same command in several processes that listen on one port. One that ends is started again."""
    if sys.platform != "linux":
        raise typer.BadParameter("needs Linux, whose kernel spreads connections", param_hint="--processes")

    async def run(settings: Settings) -> int:
        require_database(settings)
        await require_port(settings.atlas_host, settings.atlas_port, within=RELEASE_SECONDS)
        with ExitStack() as held:
            # Bound here too, and never listened on: no other program takes the port while all of them start again.
            sockets = [
                held.enter_context(listener) for listener in bind_shared(settings.atlas_host, settings.atlas_port)
            ]
            folder = Path(held.enter_context(TemporaryDirectory(prefix="atlas-api-")))
            same = copies("api", processes, "--port", str(sockets[0].getsockname()[1]))
            children = [replace(child, variables=ApiProcess(n + 1, folder).variables) for n, child in enumerate(same)]
            return await run_group(children, grace=settings.atlas_grace_seconds)

    return execute(run, atlas_host=host, atlas_port=port)
