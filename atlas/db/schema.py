"""The Postgres schema that holds everything of Atlas, and the names that are made from it.

Statements are written for the schema `atlas`. Where ATLAS_SCHEMA names another, the schema, the roles and the
notification channels of every statement are replaced here, so that two installations can share a database.
"""

import re
from functools import cache

from atlas.settings import load_settings

DEFAULT_SCHEMA = "atlas"
CHANNELS = ("jobs", "gate", "cancel", "definitions", "intents", "events", "triggers", "workers", "credentials")
ROLES = ("owner", "engine", "tenant")

# Comments and literals are matched first; of the literals, only names of channels, roles and tables are changed. The
# setting atlas.tenant is the same in every installation.
_NAMES = re.compile(
    rf"'{DEFAULT_SCHEMA}(?P<literal>(?:_(?:{'|'.join((*CHANNELS, *ROLES))})|\.(?!tenant')[a-z_]+)')"
    rf"|(?P<skip>'(?:[^']|'')*'|--[^\n]*)"
    rf"|\b{DEFAULT_SCHEMA}(?=\.|_(?:{'|'.join(ROLES)})\b)"
)


@cache
def schema_name() -> str:
    """The schema of this installation."""
    return load_settings().atlas_schema


def role(name: str) -> str:
    """The role that acts for the owner of the tables, for Atlas's programs (engine) or for a request of a tenant."""
    return f"{schema_name()}_{name}"


def channel(name: str) -> str:
    """The notification channel of that name."""
    return f"{schema_name()}_{name}"


def qualified(name: str) -> str:
    """A table or type of Atlas as SQL writes it."""
    escaped = name.replace('"', '""')
    return f'{schema_name()}."{escaped}"'


def in_schema(sql: str) -> str:
    """The statement with the names of this installation."""
    name = schema_name()
    if name == DEFAULT_SCHEMA:
        return sql

    def renamed(match: re.Match[str]) -> str:
        if match["skip"] is not None:
            return match["skip"]
        if match["literal"] is not None:
            return f"'{name}{match['literal']}"
        return name

    return _NAMES.sub(renamed, sql)
