"""Connects to an installation: over HTTP if ATLAS_URL is set, on its database otherwise."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from atlas.cli.backend import Backend
from atlas.cli.on_database import OnDatabase
from atlas.cli.over_http import OverHttp
from atlas.cli.runtime import connected, execute
from atlas.settings import Settings

T = TypeVar("T")


def on_backend(work: Callable[[Backend], Coroutine[Any, Any, T]]) -> T:
    """Run a command on the installation that the settings name."""

    async def run(settings: Settings) -> T:
        async with _connect(settings) as backend:
            return await work(backend)

    return execute(run)


@asynccontextmanager
async def _connect(settings: Settings) -> AsyncIterator[Backend]:
    if settings.atlas_url is not None:
        yield OverHttp(settings)
        return
    async with connected(settings) as conn:
        yield OnDatabase(conn, settings.home)
