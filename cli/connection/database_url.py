"""`atlas database-url`: the address of the database, for programs that connect to it themselves."""

from typing import Annotated

import typer

from atlas.cli.connection.needs_database import require_database
from atlas.cli.runtime import execute, reach_database
from atlas.cli.terminal.output import Json, say
from atlas.errors import DatabaseError
from atlas.settings import Settings


def database_url(
    owner: Annotated[
        bool, typer.Option("--owner", help="For the login that owns the tables, not for that of programs.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the address of the database, for programs that connect to it themselves.

    It is that of DATABASE_URL, or of the embedded server that runs in ATLAS_HOME.
    """

    async def work(settings: Settings) -> str:
        require_database(settings)
        if settings.embedded:
            _require_running(settings)
        async with reach_database(settings) as addresses:
            return addresses.owner_url if owner else addresses.url

    url = execute(work)
    say({"url": url}, url, json=json)


def _require_running(settings: Settings) -> None:
    """An embedded server that nothing uses stops, and its address would lead nowhere."""
    from atlas.postgres.cluster import has_embedded
    from atlas.postgres.pg_ctl import running_at

    if has_embedded(settings.home) and running_at(settings.home / "postgres" / "data") is None:
        raise DatabaseError(
            f"The embedded Postgres in {settings.home} is not running.",
            remedy="Start it with `atlas up`, and ask again while it runs.",
        )
