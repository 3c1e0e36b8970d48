"""`atlas api`: serves the API over HTTP."""

import asyncio
from typing import Annotated

import typer
import uvicorn

from atlas.api.change_signals import ChangeSignals
from atlas.cli.long_running import run_program
from atlas.cli.output import Json, say
from atlas.cli.ports import RELEASE_SECONDS, require_port
from atlas.cli.runtime import Atlas
from atlas.cli.worker import App
from atlas.logs import get_logger
from atlas.workers.tick import Ticker
from atlas.workers.user_modules import load_apps

# A request holds a connection for as long as its statement takes; batched requests share one.
CONNECTIONS = 20

log = get_logger("api")


def api(
    app: App = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; ATLAS_HOST if not given.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="ATLAS_PORT if not given.")] = None,
    json: Json = False,
) -> None:
    """Serve the API until stopped. Any number may run, on any number of machines."""

    async def work(atlas: Atlas, stop: asyncio.Event) -> None:
        load_apps(app or [])
        await serve(atlas, stop)

    run_program(work, size=CONNECTIONS, atlas_host=host, atlas_port=port)
    say({"stopped": True}, "The API has stopped.", json=json)


async def serve(atlas: Atlas, stop: asyncio.Event) -> None:
    """Serve requests until `stop` is set."""
    # Imported here: it takes a second to load, which no other command should wait for.
    from atlas.api.app import create_app
    from atlas.api.server import http_server

    settings = atlas.settings
    await require_port(settings.atlas_host, settings.atlas_port, within=RELEASE_SECONDS)
    app = create_app(settings, atlas.pool, atlas.url, tick=Ticker(settings))
    server = http_server(app, app.state.api.clients, host=settings.atlas_host, port=settings.atlas_port)
    stopping = asyncio.create_task(_stop_when(stop, server, app.state.signals))
    log.info("the API listens", host=settings.atlas_host, port=settings.atlas_port)
    try:
        await server.serve()
    finally:
        stopping.cancel()


async def _stop_when(stop: asyncio.Event, server: uvicorn.Server, hints: ChangeSignals) -> None:
    await stop.wait()
    hints.close()
    server.should_exit = True
