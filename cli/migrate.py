"""`atlas migrate`: brings the database up to date."""

from atlas.cli.output import Json, say
from atlas.cli.runtime import bring_up_to_date, execute, reach_database
from atlas.db.failures import shown
from atlas.settings import Settings


def migrate(json: Json = False) -> None:
    """Apply the migrations that are missing. It is safe to run at any time, also from several machines at once."""
    url, applied = execute(_migrate)
    text = "\n".join(f"applied {name}" for name in applied) or "Nothing to do: all migrations are applied."
    say({"database": shown(url), "applied": applied}, text, json=json)


async def _migrate(settings: Settings) -> tuple[str, list[str]]:
    async with reach_database(settings, may_create=True) as addresses:
        return addresses.owner_url, await bring_up_to_date(addresses.owner_url)
