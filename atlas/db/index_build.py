"""Builds an index while programs read and write its table: a migration that is not a transaction.

Such a migration begins with the line `-- Outside of a transaction.` and holds one statement, `create index concurrently
name on table …`. A build that was interrupted leaves an index that is not used; it is dropped before the next attempt.
"""

import re
from dataclasses import dataclass

from atlas.db.pool import Connection
from atlas.db.pooler import execute_alone
from atlas.db.schema import schema_name
from atlas.errors import MigrationError

MARK = "-- Outside of a transaction."

_COMMENT = re.compile(r"--[^\n]*")
_STATEMENT = re.compile(
    r"\s*(?P<create>create (?:unique )?index concurrently) (?P<name>\w+) on (?P<table>\w+)(?P<rest>[^;]*);?\s*"
)
_IS_VALID = "select indisvalid from pg_index where indexrelid = to_regclass($1)"


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """An index to build, as its migration writes it."""

    create: str
    name: str
    table: str
    rest: str

    async def run(self, conn: Connection) -> None:
        """Build it, unless that was done before. The connection has no transaction."""
        schema = schema_name()
        is_valid = await conn.fetchval(_IS_VALID, f"{schema}.{self.name}")
        if is_valid is False:
            await execute_alone(conn, f"drop index concurrently {schema}.{self.name}")
        if not is_valid:
            # Without a search path, which would outlive the statement: names of the table are written with the schema.
            await execute_alone(conn, f"{self.create} {self.name} on {schema}.{self.table}{self.rest}")


def read_build(name: str, sql: str) -> IndexBuild | None:
    """The index that a migration builds; None if it is an ordinary migration."""
    if not sql.startswith(MARK):
        return None
    match = _STATEMENT.fullmatch(_COMMENT.sub("", sql))
    if match is None:
        raise MigrationError(
            f"The migration {name} is not run as a transaction, and contains more than one index.",
            remedy="Let it hold one statement, `create index concurrently name on table …`; nothing was changed.",
        )
    return IndexBuild(**match.groupdict())
