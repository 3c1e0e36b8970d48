"""Loads SQL from `.sql` files, binds its `:name` parameters and runs it."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import asyncpg

from atlas.db.pool import Connection
from atlas.db.schema import in_schema
from atlas.source import SOURCE

# Literals and comments are matched first and left alone; `::type` is a cast, not a parameter.
_TOKENS = re.compile(
    r"(?P<skip>'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|::)|(?<![\w:]):(?P<name>[a-z_][a-z0-9_]*)",
)

# Even SKIP LOCKED waits when the transaction that updates a row ends just then, so any statement can meet a deadlock.
DEADLOCK_TRIES = 5

T = TypeVar("T")


@dataclass(frozen=True)
class Statement:
    """One statement, ready for asyncpg: `$n` in place of names, and the order of the names."""

    path: str
    written: str
    names: tuple[str, ...]

    @cached_property
    def sql(self) -> str:
        """Its text in this installation's schema. Settings are read when it is first used, not when it is loaded."""
        return in_schema(self.written)

    def bind(self, values: dict[str, Any]) -> list[Any]:
        """The values in the statement's order; a missing or an unknown name is a mistake in our code."""
        if len(values) == len(self.names):
            try:
                return [values[name] for name in self.names]
            except KeyError:
                pass
        raise TypeError(f"{self.path} takes {sorted(self.names)}, was given {sorted(values)}")


@cache
def statement(path: str) -> Statement:
    """Load the statement at `path`, relative to the folder that holds `engine/`, `audit/` and the others."""
    return parse((SOURCE / path).read_text(encoding="utf-8"), path)


def parse(text: str, path: str = "<sql>") -> Statement:
    """Turn `:name` into `$1`, `$2` …, one number a name."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    sql = _TOKENS.sub(number, text).strip().rstrip(";")
    return Statement(path, sql, tuple(numbers))


async def fetch(conn: Connection, query: Statement, **values: Any) -> list[Any]:
    """All rows."""
    rows: list[Any] = await conn.fetch(query.sql, *query.bind(values))
    return rows


async def fetch_row(conn: Connection, query: Statement, **values: Any) -> Any | None:
    """The first row, or None."""
    return await conn.fetchrow(query.sql, *query.bind(values))


async def fetch_value(conn: Connection, query: Statement, **values: Any) -> Any:
    """The first column of the first row, or None."""
    return await conn.fetchval(query.sql, *query.bind(values))


async def retry_deadlocks(conn: Connection, work: Callable[[], Awaitable[T]]) -> T:
    """Run `work`, again after a deadlock: nothing of it was done. In a transaction its owner has to repeat it all."""
    for _ in range(DEADLOCK_TRIES - 1):
        try:
            return await work()
        except asyncpg.DeadlockDetectedError:
            if conn.is_in_transaction():
                raise
    return await work()
