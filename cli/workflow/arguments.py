"""What these commands take from the command line, read and checked."""

from typing import Annotated
from uuid import UUID

import typer

from atlas.db.pool import Connection
from atlas.engine.tenants import find_tenant

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, which is that of its request.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")]


async def tenant_id(conn: Connection, named: str | None) -> UUID | None:
    """The tenant that was named, if one was."""
    return None if named is None else (await find_tenant(conn, named)).id
