"""Writes that reach over a relation: `connect`, `create`, `connect_or_create` and `disconnect`.

Each takes several statements, so the caller runs them in a transaction. A row that holds the key of a
relation is written after the row it points to, and before the rows that point to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atlas.db.pool import Connection
from atlas.db.schema import qualified
from atlas.prisma_client.compile import writes
from atlas.prisma_client.compile.draft import (
    CompiledQuery,
    Draft,
    Included,
    as_dict,
    column,
    named,
    quoted,
    scalar,
)
from atlas.prisma_client.compile.where import target_of, unique_sql
from atlas.prisma_client.errors import no_record, wrong_value
from atlas.prisma_client.schema import Field, Model, Schema, UniqueKey
from atlas.prisma_client.values import codec_of, select_sql

_ON_CREATE = ("create", "connect", "connect_or_create")
_ON_UPDATE = (*_ON_CREATE, "disconnect")

Row = dict[str, Any]


def split(model: Model, data: Any) -> tuple[Row, Row]:
    """The entries for the model's own columns, and those for its relations."""
    columns, relations = {}, {}
    for name, value in as_dict(data, f"{model.name}.data").items():
        field = model.fields.get(name)
        if field is not None and field.relation is not None:
            relations[name] = value
        else:
            columns[scalar(model, name).name] = value
    return columns, relations


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes rows and what hangs on them, and gives back their keys."""

    conn: Connection
    schema: Schema

    async def create(self, model: Model, data: Any, conflict: UniqueKey | None = None) -> Row | None:
        """Insert a row and what hangs on it; None where `conflict` says that its key is taken."""
        columns, relations = split(model, data)
        columns |= await self._held_keys(model, columns, relations, _ON_CREATE)
        statement = writes.insert(self.schema, model, columns, _keys_of(model), conflict)
        row = await self._row(model, statement)
        if row is not None:
            await self._write_owned(model, row, relations, _ON_CREATE)
        return row

    async def update(self, model: Model, where: Any, data: Any) -> Row | None:
        """Change a row and what hangs on it; None where there is no such row."""
        columns, relations = split(model, data)
        columns |= await self._held_keys(model, columns, relations, _ON_UPDATE)
        statement = writes.update(self.schema, model, where, columns, _keys_of(model))
        row = await (self._row(model, statement) if statement else self._find(model, where))
        if row is not None:
            await self._write_owned(model, row, relations, _ON_UPDATE)
        return row

    async def _held_keys(self, model: Model, columns: Row, relations: Row, known: tuple[str, ...]) -> Row:
        """The key columns that the relations held by this row put into it."""
        keys: Row = {}
        for name, wanted in relations.items():
            field = model.fields[name]
            target = target_of(self.schema, field)
            if field.relation is not None and field.relation.holds_key:
                keys |= await self._held_key(field, target, named(wanted, field.label, known))
        for name in keys:
            if name in columns:
                raise wrong_value(f"{model.name}.{name}", "one value, not another by a relation", columns[name])
        return keys

    async def _held_key(self, field: Field, target: Model, wanted: Row) -> Row:
        assert field.relation is not None
        if len(wanted) != 1:
            raise wrong_value(field.label, "exactly one operation", wanted)
        [(name, value)] = wanted.items()
        if name == "disconnect":
            if not isinstance(value, bool):
                raise wrong_value(f"{field.label}.disconnect", "a bool", value)
            return dict.fromkeys(field.relation.own) if value else {}
        row = await self._one(target, name, value, field)
        return {own: row[theirs] for own, theirs in zip(field.relation.own, field.relation.theirs, strict=True)}

    async def _one(self, target: Model, name: str, value: Any, field: Field) -> Row:
        """The row of the target that this row is to point to."""
        if name == "create":
            found = await self.create(target, value)
        elif name == "connect":
            found = await self._find(target, value)
        else:
            where, data = _found_or_new(field, value)
            found = await self._find(target, where) or await self.create(target, data)
        if found is None:
            raise no_record(f"No {target.name} was found to connect to {field.label}.")
        return found

    async def _write_owned(self, model: Model, row: Row, relations: Row, known: tuple[str, ...]) -> None:
        """Write the rows that point to this one."""
        for name, wanted in relations.items():
            field = model.fields[name]
            if field.relation is None or field.relation.holds_key:
                continue
            target = target_of(self.schema, field)
            pairs = zip(field.relation.own, field.relation.theirs, strict=True)
            key = {theirs: row[own] for own, theirs in pairs}
            for operation, values in named(wanted, field.label, known).items():
                for value in values if isinstance(values, list | tuple) else [values]:
                    await self._owned(target, operation, value, key, field)

    async def _owned(self, target: Model, name: str, value: Any, key: Row, field: Field) -> None:
        if name == "create":
            await self._create_owned(target, value, key)
        elif name == "connect":
            if await self.update(target, value, key) is None:
                raise no_record(f"No {target.name} was found to connect to {field.label}.")
        elif name == "connect_or_create":
            where, data = _found_or_new(field, value)
            if await self.update(target, where, key) is None:
                await self._create_owned(target, data, key)
        else:
            await self._disconnect(target, value, key, field)

    async def _create_owned(self, target: Model, data: Any, key: Row) -> None:
        for name in as_dict(data, f"{target.name}.data"):
            if name in key:
                raise wrong_value(f"{target.name}.{name}", "the value its relation gives it", data[name])
        await self.create(target, {**data, **key})

    async def _disconnect(self, target: Model, wanted: Any, key: Row, field: Field) -> None:
        """Let go of the rows that point here; a row that points elsewhere is left as it is."""
        nothing = dict.fromkeys(key)
        if isinstance(wanted, bool) and not field.is_list:
            statement = writes.update_many(self.schema, target, key, nothing) if wanted else None
            if statement is not None:
                await self.conn.execute(statement.sql, *statement.parameters)
        else:
            where = dict(as_dict(wanted, f"{field.label}.disconnect"))
            where["AND"] = [key, {"AND": where.pop("AND", [])}]
            await self.update(target, where, nothing)

    async def _find(self, model: Model, where: Any) -> Row | None:
        draft = Draft(self.schema)
        alias = draft.alias()
        columns, _ = _keys_of(model)(draft, alias)
        condition = unique_sql(draft, model, alias, where)
        sql = f"select {columns} from {qualified(model.table)} {alias} where {condition}"
        return await self._row(model, CompiledQuery(sql, draft.parameters))

    async def _row(self, model: Model, statement: CompiledQuery) -> Row | None:
        record = await self.conn.fetchrow(statement.sql, *statement.parameters)
        if record is None:
            return None
        return {name: codec_of(model.fields[name]).read(value) for name, value in record.items()}


def _found_or_new(field: Field, value: Any) -> tuple[Mapping[str, Any], Any]:
    entries = as_dict(value, f"{field.label}.connect_or_create")
    if entries.keys() != {"where", "create"}:
        raise wrong_value(f"{field.label}.connect_or_create", "`where` and `create`", sorted(entries))
    return entries["where"], entries["create"]


def _keys_of(model: Model) -> writes.Returning:
    """Select the fields by which the row is found again, and by which others point to it."""
    names = list(model.identity.fields)
    for field in model.fields.values():
        names += field.relation.own if field.relation is not None else ()

    def columns(draft: Draft, alias: str) -> tuple[str, tuple[Included, ...]]:
        fields = [model.fields[name] for name in dict.fromkeys(names)]
        shown = (f"{select_sql(field, column(alias, field))} as {quoted(field.name)}" for field in fields)
        return ", ".join(shown), ()

    return columns
