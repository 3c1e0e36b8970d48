"""What these commands take from the command line, read and checked."""

from typing import Annotated
from uuid import UUID

import typer

from atlas.bounds import LARGEST_PAGE
from atlas.cli.parameters import read_id
from atlas.db.pool import Connection
from atlas.engine.tenants import find_tenant

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, which is that of its request.")]
Limit = Annotated[int, typer.Option(min=1, max=LARGEST_PAGE)]
Before = Annotated[str | None, typer.Option(metavar="ID", help="Show those that are older than this one.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")]


def read_before(given: str | None) -> UUID | None:
    """The id after which a list of the newest goes on, if one was given."""
    return None if given is None else read_id("--before", given)


async def tenant_id(conn: Connection, named: str | None) -> UUID | None:
    """The tenant that was named, if one was."""
    return None if named is None else (await find_tenant(conn, named)).id
