"""What these commands take from the command line, read and checked."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.cli.connection.client_lists import resolve_id

if TYPE_CHECKING:
    from atlas.client import AtlasClient

RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id, which is that of its request, or its beginning.")
]
Before = Annotated[str | None, typer.Option(metavar="ID", help="Show those that are older than this one.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")]


async def find_run(atlas: "AtlasClient", text: str) -> UUID:
    """The id of the run that was named."""
    return await resolve_id(atlas, "run", text, option="RUN")
