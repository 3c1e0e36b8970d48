"""What these commands take from the command line, read and checked."""

from typing import Annotated
from uuid import UUID

import typer

from atlas.bounds import LARGEST_PAGE
from atlas.cli.ids import Kind, find_id
from atlas.db.pool import Connection

RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id, which is that of its request, or its beginning.")
]
Limit = Annotated[int, typer.Option(min=1, max=LARGEST_PAGE)]
Before = Annotated[str | None, typer.Option(metavar="ID", help="Show those that are older than this one.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")]


async def find_run(conn: Connection, text: str) -> UUID:
    """The id of the run that was named."""
    return await find_id(conn, "run", text, option="RUN")


async def find_before(conn: Connection, kind: Kind, given: str | None) -> UUID | None:
    """The id after which a list of the newest goes on, if one was given."""
    return None if given is None else await find_id(conn, kind, given, option="--before")
