"""Loads SQL from `.sql` files, binds its `:name` parameters and runs it."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, cached_property
from typing import Any, TypeVar

import asyncpg

from atlas.db.pool import Connection
from atlas.db.schema import in_schema
from atlas.source import source_file

# Literals and comments are matched first and left alone; `::type` is a cast, not a parameter.
_TOKENS = re.compile(
    r"(?P<skip>'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|::)|(?<![\w:]):(?P<name>[a-z_][a-z0-9_]*)",
)

# Even SKIP LOCKED waits when the transaction that updates a row ends just then, so any statement can meet a deadlock.
DEADLOCK_TRIES = 5

T = TypeVar("T")


class Statement:
    """One statement, ready for asyncpg: `$n` in place of names, and the order of the names.

    Its file is read when it is first used: a command imports many statements and runs few.
    """

    def __init__(
        self, path: str, text: str | None = None, nulls: frozenset[str] = frozenset(), columns: Sequence[str] = ()
    ) -> None:
        self.path = path
        self._text = text
        self._nulls = nulls
        self._columns = columns

    def without(self, *names: str) -> "Statement":
        """The same statement where these parameters are null: fewer values to send, and less to plan and compute."""
        return Statement(self.path, self._text, self._nulls | set(names), self._columns)

    def of_columns(self, names: Sequence[str]) -> "Statement":
        """The same statement with these columns, or arguments of a function, in place of `:columns`.

        A new field is entered in its class alone.
        """
        return Statement(self.path, self._text, self._nulls, names)

    @cached_property
    def sql(self) -> str:
        """Its text in this installation's schema."""
        return in_schema(self._numbered[0])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters, in the order of their numbers."""
        return self._numbered[1]

    @cached_property
    def _numbered(self) -> tuple[str, tuple[str, ...]]:
        text = source_file(self.path).read_text(encoding="utf-8") if self._text is None else self._text
        if self._columns:
            text = text.replace(":columns", ", ".join(self._columns))
        numbers: dict[str, int] = {}

        def number(match: re.Match[str]) -> str:
            name = match["name"]
            if name is None:
                return match[0]
            if name in self._nulls:
                return "null"
            return f"${numbers.setdefault(name, len(numbers) + 1)}"

        return _TOKENS.sub(number, text).strip().rstrip(";"), tuple(numbers)

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
    """The statement at `path`, relative to the folder that holds `engine/`, `audit/` and the others."""
    return Statement(path)


def parse(text: str, path: str = "<sql>") -> Statement:
    """The statement in a text: `:name` becomes `$1`, `$2` …, one number a name."""
    return Statement(path, text)


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
