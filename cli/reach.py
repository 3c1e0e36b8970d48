"""The way to an installation: over HTTP where ATLAS_URL is set, on its database otherwise."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from atlas.settings import Settings
from cli.installation import Installation
from cli.on_database import OnDatabase
from cli.over_http import OverHttp
from cli.runtime import connected, execute

T = TypeVar("T")


def ask(work: Callable[[Installation], Coroutine[Any, Any, T]]) -> T:
    """Ask the installation that the settings name."""

    async def run(settings: Settings) -> T:
        async with _reached(settings) as installation:
            return await work(installation)

    return execute(run)


@asynccontextmanager
async def _reached(settings: Settings) -> AsyncIterator[Installation]:
    if settings.atlas_url is not None:
        yield OverHttp(settings)
        return
    async with connected(settings) as conn:
        yield OnDatabase(conn)
