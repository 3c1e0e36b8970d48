"""What these commands take from the command line, read and checked."""

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import orjson
import typer

from atlas.db.pool import Connection
from atlas.engine.tenants import find_tenant
from atlas.errors import AtlasError

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, which is that of its request.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")]


class UnreadableFile(AtlasError):
    """A file that a command was given cannot be read as what it should be."""


def read_document(file: Path) -> Any:
    """A JSON file."""
    try:
        return orjson.loads(file.read_bytes())
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read: {error.strerror}.", remedy="Name a JSON file.") from None
    except orjson.JSONDecodeError as error:
        raise UnreadableFile(f"{file} is not JSON: {error}.", remedy="Correct the file.") from None


async def tenant_id(conn: Connection, named: str | None) -> UUID | None:
    """The tenant that was named, if one was."""
    return None if named is None else (await find_tenant(conn, named)).id
