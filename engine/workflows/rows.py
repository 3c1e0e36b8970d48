"""Rows as they are read: JSON columns decoded, filters checked."""

from typing import Any

import orjson

from atlas.db.pool import Queryable
from atlas.db.statements import Statement
from atlas.errors import FieldError, InvalidInput


async def read_rows(
    conn: Queryable, query: Statement, values: dict[str, Any], *json_columns: str
) -> list[dict[str, Any]]:
    """The rows of a query, with these columns read as JSON."""
    rows = [dict(row) for row in await conn.fetch(query.sql, *query.bind(values))]
    for row in rows:
        for name in json_columns:
            if row[name] is not None:
                row[name] = orjson.loads(row[name])
    return rows


def check_status(status: str | None, statuses: tuple[str, ...]) -> None:
    """Refuse to filter by a status that does not exist."""
    if status is not None and status not in statuses:
        raise InvalidInput("The filter", [FieldError("status", f"is not one of {', '.join(statuses)}")])
