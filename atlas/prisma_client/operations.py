"""Runs one call of the generated client on a connection and returns the shape its actions expect.

Reads and plain writes are one statement each. A write that reaches over a relation, or whose result
includes one, takes several, and then stands in a transaction (or savepoint) of its own.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from atlas.db.pool import Connection
from atlas.prisma_client.compile import reads, writes
from atlas.prisma_client.compile.draft import CompiledQuery, Draft, Included, as_dict
from atlas.prisma_client.compile.groups import group_by, group_of
from atlas.prisma_client.compile.selection import selection_sql, unpack
from atlas.prisma_client.compile.where import by_key, key_values, unique
from atlas.prisma_client.errors import missing_value, no_record
from atlas.prisma_client.nested import Writer, affected
from atlas.prisma_client.nested_data import DataReader, Row, RowData
from atlas.prisma_client.schema import Model, Schema, UniqueKey

_UPSERT_ROUNDS = 5


@dataclass(slots=True)
class Operation:
    """One call: the model asked, the class that will hold its rows, and the arguments as the actions send them."""

    schema: Schema
    model: Model
    result: type[BaseModel]
    arguments: dict[str, Any]
    selection: list[str]

    @property
    def include(self) -> Any:
        """The relations to include in the result."""
        return self.arguments.get("include")

    def returning(self, draft: Draft, alias: str) -> tuple[str, tuple[Included, ...]]:
        """The columns of the result."""
        return selection_sql(draft, self.model, alias, self.result, self.include)


async def _find_unique_or_raise(conn: Connection, call: Operation) -> Row:
    where, include = call.arguments.get("where"), call.include
    return _existing(call, await _one(conn, reads.find_unique(call.schema, call.model, call.result, where, include)))


async def _find_first(conn: Connection, call: Operation) -> Row | None:
    arguments = {**call.arguments, "take": 1}
    return await _one(conn, reads.find_many(call.schema, call.model, call.result, arguments))


async def _find_first_or_raise(conn: Connection, call: Operation) -> Row:
    return _existing(call, await _find_first(conn, call))


async def _find_many(conn: Connection, call: Operation) -> list[Row]:
    statement = reads.find_many(call.schema, call.model, call.result, call.arguments)
    rows = list(map(dict, await conn.fetch(statement.sql, *statement.parameters)))
    if statement.included:
        for row in rows:
            unpack(row, statement.included)
    return rows[::-1] if statement.backwards else rows


async def _count(conn: Connection, call: Operation) -> dict[str, Row]:
    selected = reads.aggregates(call.model, call.selection)["_count"]
    statement = reads.count(call.schema, call.model, call.arguments, selected)
    return {"_count": dict(await conn.fetchrow(statement.sql, *statement.parameters))}


async def _group_by(conn: Connection, call: Operation) -> list[Row]:
    statement, outputs = group_by(call.schema, call.model, call.arguments, call.selection)
    records = await conn.fetch(statement.sql, *statement.parameters)
    groups = [group_of(list(record.values()), outputs) for record in records]
    return groups[::-1] if statement.backwards else groups


async def _create(conn: Connection, call: Operation) -> Row:
    data = DataReader(call.schema).create(call.model, _required(call, "data"))
    return _existing(call, await _insert(conn, call, data))


async def _create_many(conn: Connection, call: Operation) -> Row:
    skip_duplicates = bool(call.arguments.get("skipDuplicates"))
    data = _required(call, "data")
    statements = list(writes.insert_many(call.schema, call.model, data, skip_duplicates=skip_duplicates))
    if len(statements) == 1:
        return {"count": await affected(conn, statements[0])}
    async with conn.transaction():
        return {"count": sum([await affected(conn, statement) for statement in statements])}


async def _update(conn: Connection, call: Operation) -> Row:
    data = DataReader(call.schema).update(call.model, _required(call, "data"))
    return _existing(call, await _change(conn, call, _required(call, "where"), data))


async def _update_many(conn: Connection, call: Operation) -> Row:
    data = _required(call, "data")
    statement = writes.update(call.schema, call.model, by_key(call.arguments.get("where")), data)
    return {"count": await affected(conn, statement) if statement else 0}


async def _upsert(conn: Connection, call: Operation) -> Row:
    """Update, or else create. A row that another creates in between is updated after all."""
    where = _required(call, "where")
    reader = DataReader(call.schema)
    create = reader.create(call.model, _required(call, "create"))
    update = reader.update(call.model, _required(call, "update"))
    key = _shared_key(call.model, where, create)
    for _ in range(_UPSERT_ROUNDS):
        row = await _change(conn, call, where, update) or await _insert(conn, call, create, key)
        if row is not None:
            return row
    raise no_record(f"The {call.model.name} could be neither updated nor created.")


async def _delete(conn: Connection, call: Operation) -> Row:
    where = _required(call, "where")
    return _existing(call, await _one(conn, writes.delete(call.schema, call.model, unique(where), call.returning)))


async def _delete_many(conn: Connection, call: Operation) -> Row:
    statement = writes.delete(call.schema, call.model, by_key(call.arguments.get("where")))
    return {"count": await affected(conn, statement)}


async def _insert(conn: Connection, call: Operation, data: RowData, conflict: UniqueKey | None = None) -> Row | None:
    """Insert one row and return it; None where `conflict` says that its key is taken."""
    if data.is_plain and not call.include:
        return await _one(conn, writes.insert(call.schema, call.model, data.columns, call.returning, conflict))
    async with conn.transaction():
        row = await Writer(conn, call.schema).create(call.model, data, conflict=conflict)
        return await _again(conn, call, row)


async def _change(conn: Connection, call: Operation, where: Any, data: RowData) -> Row | None:
    """Update one row and return it; None where there is none."""
    if data.is_plain and not call.include:
        statement = writes.update(call.schema, call.model, unique(where), data.columns, call.returning)
        if statement is None:
            statement = reads.find_unique(call.schema, call.model, call.result, where, None)
        return await _one(conn, statement)
    async with conn.transaction():
        return await _again(conn, call, await Writer(conn, call.schema).update(call.model, unique(where), data))


async def _again(conn: Connection, call: Operation, row: Row | None) -> Row | None:
    """Read a row just written, with its relations as they are now."""
    if row is None:
        return None
    key = call.model.identity
    values = {name: row[name] for name in key.fields}
    where = values if key.name in values else {key.name: values}
    return await _one(conn, reads.find_unique(call.schema, call.model, call.result, where, call.include))


def _shared_key(model: Model, where: Any, create: RowData) -> UniqueKey | None:
    """The key that is all of `where` and that a created row would hold.

    Only then does "taken" mean that the row to update has appeared. A row with relations is created
    without it, since what was written before the row itself could not be taken back.
    """
    for key in model.keys:
        if create.is_plain and as_dict(where, f"{model.name}.where").keys() == {key.name}:
            values = key_values(model, key, where[key.name])
            if all(create.columns.get(name) == value for name, value in values.items()):
                return key
    return None


async def _one(conn: Connection, statement: CompiledQuery) -> Row | None:
    record = await conn.fetchrow(statement.sql, *statement.parameters)
    return None if record is None else row_of(statement, record)


def row_of(statement: CompiledQuery, record: Any) -> Row:
    """A record as the models take it."""
    row = dict(record)
    if statement.included:
        unpack(row, statement.included)
    return row


def _existing(call: Operation, row: Row | None) -> Row:
    if row is None:
        raise no_record(f"No {call.model.name} was found.")
    return row


def _required(call: Operation, name: str) -> Any:
    value = call.arguments.get(name)
    if value is None:
        raise missing_value(f"{call.model.name}.{name}")
    return value


OPERATIONS: dict[str, Callable[[Connection, Operation], Awaitable[Any]]] = {
    "find_unique_or_raise": _find_unique_or_raise,
    "find_first": _find_first,
    "find_first_or_raise": _find_first_or_raise,
    "find_many": _find_many,
    "count": _count,
    "group_by": _group_by,
    "create": _create,
    "create_many": _create_many,
    "update": _update,
    "update_many": _update_many,
    "upsert": _upsert,
    "delete": _delete,
    "delete_many": _delete_many,
}
READS = frozenset({"find_unique_or_raise", "find_first", "find_first_or_raise", "find_many", "count", "group_by"})
# The calls whose result is rows of their model.
ROWS = frozenset({"find_unique", *OPERATIONS}) - {"count", "group_by", "create_many", "update_many", "delete_many"}
