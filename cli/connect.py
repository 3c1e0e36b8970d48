"""The way to an installation: over HTTP where ATLAS_URL is set, on its database otherwise."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from atlas.cli.backend import Backend
from atlas.cli.on_database import OnDatabase
from atlas.cli.over_http import OverHttp
from atlas.cli.runtime import connected, execute
from atlas.settings import Settings

T = TypeVar("T")


def ask(work: Callable[[Backend], Coroutine[Any, Any, T]]) -> T:
    """Ask the installation that the settings name."""

    async def run(settings: Settings) -> T:
        async with _reached(settings) as installation:
            return await work(installation)

    return execute(run)


@asynccontextmanager
async def _reached(settings: Settings) -> AsyncIterator[Backend]:
    if settings.atlas_url is not None:
        yield OverHttp(settings)
        return
    async with connected(settings) as conn:
        yield OnDatabase(conn)
