"""The commands that do not work over HTTP: why, and what to do instead."""

import sys

from atlas.cli.command_table import canonical
from atlas.errors import AtlasError
from atlas.settings import Settings

_THERE = "Run it where the database is, with DATABASE_URL."
# By their first words.
REASONS = {
    "up": ("it starts an Atlas on this machine", "Unset ATLAS_URL to start one here."),
    "api": ("it serves a database", "Set DATABASE_URL, or unset ATLAS_URL."),
    "worker": ("a worker claims jobs from the database", "Set DATABASE_URL. A host runs its jobs with `atlas agent`."),
    "scheduler": ("a scheduler acts on the database", "Set DATABASE_URL, or unset ATLAS_URL."),
    "migrate": ("it changes the tables", "Set DATABASE_URL, or unset ATLAS_URL."),
    "backup": ("it copies the database and the keys beside it", _THERE),
    "restore": ("it makes a database", "Set DATABASE_URL, or unset ATLAS_URL."),
    "database-url": ("it is the address of the database", "Run it where `atlas up` runs, or set DATABASE_URL."),
    "sign-in": ("the link is made on the database", "Sign in with a token on the pages of the API."),
    "tenant export": ("it reads the tables and the keys of the audit log", _THERE),
    "tenant import": ("it writes the tables of a whole tenant", _THERE),
    "effects reconcile": (
        "the adapter of the provider and its keys are where the command runs",
        "Run it where the database is, with DATABASE_URL, or enqueue a job of the type effects.reconcile.",
    ),
    "audit forward": ("it reads the seals of the whole log and stores its place", _THERE),
    "audit erase": ("the API erases nothing from the audit log", _THERE),
    "audit archive": ("only the owner of the tables records archives", _THERE),
    "audit prune": ("only the owner of the tables removes rows", _THERE),
    "audit new-epoch": ("it signs with the key of the machine", "Run it where the key and the database are."),
    "audit verify": (
        "keys, copies of checkpoints and tables are compared where the database is",
        "Run it there, or without options: the API then verifies the audit log with its own keys.",
    ),
    "audit proof": ("the API proves rows, not that checkpoints continue each other", _THERE),
}


class NotOverHttp(AtlasError):
    """A command that needs the database, while ATLAS_URL names an API."""

    def __init__(self) -> None:
        first, *words = [*(word for word in sys.argv[1:] if not word.startswith("-")), ""]
        words = [canonical(first), *filter(None, words)]
        name = next((name for name in (" ".join(words[:2]), *words[:1]) if name in REASONS), " ".join(words[:2]))
        why, instead = REASONS.get(name, ("it needs the database", _THERE))
        super().__init__(f"`atlas {name}` does not work over HTTP: {why}.", remedy=instead)


def require_database(settings: Settings) -> None:
    """Refuse a command that would use a database of this machine, although ATLAS_URL names an installation."""
    if settings.atlas_url is not None and settings.database_url is None:
        raise NotOverHttp
