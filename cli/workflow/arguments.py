"""What these commands take from the command line, read and checked."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from atlas.bounds import LARGEST_PAGE
from atlas.cli.ids import Kind, find_id
from atlas.cli.over_http_rows import find_listed
from atlas.db.pool import Connection

if TYPE_CHECKING:
    from atlas.client import AsyncPages, AtlasClient, IntentShown, RunShown

RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id, which is that of its request, or its beginning.")
]
Limit = Annotated[int, typer.Option(min=1, max=LARGEST_PAGE)]
Before = Annotated[str | None, typer.Option(metavar="ID", help="Show those that are older than this one.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")]


async def find_run(conn: Connection, text: str) -> UUID:
    """The id of the run that was named."""
    return await find_id(conn, "run", text, option="RUN")


async def find_listed_run(atlas: "AtlasClient", text: str) -> UUID:
    """The same over HTTP."""

    async def runs_and_requests() -> "AsyncIterator[RunShown | IntentShown]":
        async for run in atlas.list_runs():
            yield run
        async for intent in atlas.list_intents():
            yield intent

    return await find_listed("run", text, runs_and_requests(), option="RUN")


async def find_before(conn: Connection, kind: Kind, given: str | None) -> UUID | None:
    """The id after which a list of the newest goes on, if one was given."""
    return None if given is None else await find_id(conn, kind, given, option="--before")


async def find_cursor(kind: Kind, given: str | None, listing: "AsyncPages[Any]") -> str | None:
    """The same for a list of the API."""
    return None if given is None else str(await find_listed(kind, given, listing, option="--before"))
