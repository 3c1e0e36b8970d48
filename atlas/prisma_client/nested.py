"""Writes that reach over a relation, of the data that `nested_data.py` has read and checked.

Each takes several statements, so the caller runs them in a transaction. A row that holds the key of a
relation is written after the row it points to, and before the rows that point to it. A row that is to be updated is
read first: if it is not there, nothing is written.
"""

from dataclasses import dataclass
from typing import Any

from atlas.db.pool import Connection
from atlas.db.schema import qualified
from atlas.prisma_client.compile import writes
from atlas.prisma_client.compile.draft import CompiledQuery, Draft, Included, column, quoted
from atlas.prisma_client.compile.where import RowFilter, all_of, any_of, holding, none_of
from atlas.prisma_client.errors import no_record, none_to_connect, not_connected, required_relation
from atlas.prisma_client.nested_data import NestedWrite, Row, RowData
from atlas.prisma_client.schema import Model, Schema, UniqueKey
from atlas.prisma_client.values import codec_of, select_sql

_POINTING = ("create", "connect", "connect_or_create")


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes rows and what hangs on them, and gives back their keys."""

    conn: Connection
    schema: Schema

    async def create(
        self, model: Model, data: RowData, key: Row | None = None, *, conflict: UniqueKey | None = None
    ) -> Row | None:
        """Insert a row and what hangs on it; None where `conflict` says that its key is taken."""
        columns = data.columns | (key or {})
        for write in data.held:
            columns |= await self._held_key(model, write)
        row = await self._row(model, writes.insert(self.schema, model, columns, _keys_of(model), conflict))
        if row is not None:
            for write in data.owned:
                await self._owned(write, row, is_new=True)
        return row

    async def update(self, model: Model, row_filter: RowFilter, data: RowData) -> Row | None:
        """Change a row and what hangs on it; None, and nothing written, where there is no such row."""
        row = await self._find(model, row_filter)
        if row is None:
            return None
        columns = dict(data.columns)
        for write in data.held:
            columns |= await self._held_change(model, write, row)
        identity = holding({name: row[name] for name in model.identity.fields})
        statement = writes.update(self.schema, model, identity, columns, _keys_of(model))
        if statement is not None:
            row = await self._row(model, statement)
            if row is None:
                raise no_record(f"The {model.name} was deleted meanwhile.")
        for write in data.owned:
            await self._owned(write, row, is_new=False)
        return row

    async def _held_change(self, model: Model, write: NestedWrite, row: Row) -> Row:
        """The columns of a row that change with the row it points to."""
        if write.operation in _POINTING:
            return await self._held_key(model, write)
        related = holding({theirs: row[own] for own, theirs in _pairs(write)})
        for step in write.steps:
            row_filter = (
                None if None in (row[name] for name in write.relation.own) else all_of(related, step.row_filter)
            )
            if write.operation == "disconnect":
                is_there = row_filter is not None and await self._find(write.target, row_filter) is not None
                return dict.fromkeys(write.relation.own) if is_there else {}
            await self._change_one(write, row_filter, step.data)
        return {}

    async def _held_key(self, model: Model, write: NestedWrite) -> Row:
        """The key of the row that a row is to point to."""
        [step] = write.steps
        row = None if write.operation == "create" else await self._find(write.target, step.row_filter)
        if row is None and write.operation == "connect":
            raise no_record(f"No {write.target.name} was found to connect to {write.field.label}.")
        is_new = row is None
        row = row or await self.create(write.target, step.data)
        assert row is not None
        key = {own: row[theirs] for own, theirs in _pairs(write)}
        if not is_new and not _has_list_of(model, write):
            await self._let_go(model, holding(key), write)
        return key

    async def _owned(self, write: NestedWrite, row: Row, *, is_new: bool) -> None:
        """Write the rows that point to this one."""
        key = {theirs: row[own] for own, theirs in _pairs(write)}
        filters = [step.row_filter for step in write.steps]
        match write.operation:
            case "create":
                if not is_new and not write.field.is_list:
                    await self._let_go(write.target, holding(key), write)
                for step in write.steps:
                    await self.create(write.target, step.data, key)
            case "connect" if write.field.is_list:
                if await self._change(write.target, any_of(filters), key) != len(filters):
                    raise none_to_connect(write.field)
            case "connect" | "connect_or_create":
                for step in write.steps:
                    if not await self._connect(write, step.row_filter, key):
                        if write.operation == "connect":
                            raise no_record(f"No {write.target.name} was found to connect to {write.field.label}.")
                        await self.create(write.target, step.data, key)
            case "set":
                await self._let_go(write.target, all_of(holding(key), none_of(filters)), write)
                await self._change(write.target, all_of(any_of(filters), none_of([holding(key)])), key)
            case "disconnect":
                await self._let_go(write.target, all_of(holding(key), any_of(filters)), write)
            case "delete" if write.field.is_list:
                if await self._delete(write.target, all_of(holding(key), any_of(filters))) != len(filters):
                    raise not_connected(write.field)
            case _:
                for step in write.steps:
                    await self._change_related(write, all_of(holding(key), step.row_filter), step.data)

    async def _change_related(self, write: NestedWrite, row_filter: RowFilter, data: RowData) -> None:
        if write.operation == "update_many":
            await self._change(write.target, row_filter, data.columns)
        elif write.operation == "delete_many":
            await self._delete(write.target, row_filter)
        else:
            await self._change_one(write, row_filter, data)

    async def _change_one(self, write: NestedWrite, row_filter: RowFilter | None, data: RowData) -> None:
        """Update or delete the one related row, which must be there."""
        if row_filter is None:
            done = False
        elif write.operation == "delete":
            done = await self._delete(write.target, row_filter) > 0
        else:
            done = await self.update(write.target, row_filter, data) is not None
        if not done:
            raise no_record(f"No {write.target.name} was found for the {write.operation} of {write.field.label}.")

    async def _connect(self, write: NestedWrite, row_filter: RowFilter, key: Row) -> bool:
        """Let the filtered row point here, in place of one that did if only one can; False if there is none."""
        row = await self._find(write.target, row_filter)
        if row is None:
            return False
        if any(row[name] != value for name, value in key.items()):
            if not write.field.is_list:
                await self._let_go(write.target, holding(key), write)
            await self._change(write.target, holding({name: row[name] for name in write.target.identity.fields}), key)
        return True

    async def _let_go(self, model: Model, row_filter: RowFilter, write: NestedWrite) -> None:
        """Let rows point to nothing any more, which a required relation forbids."""
        own = write.relation.own if write.relation.holds_key else write.relation.theirs
        if all(model.fields[name].required for name in own):
            if await self._find(model, row_filter) is not None:
                raise required_relation(write.field)
        else:
            await self._change(
                model, row_filter, dict.fromkeys(name for name in own if not model.fields[name].required)
            )

    async def _change(self, model: Model, row_filter: RowFilter, columns: Row) -> int:
        statement = writes.update(self.schema, model, row_filter, columns)
        return await affected(self.conn, statement) if statement is not None else 0

    async def _delete(self, model: Model, row_filter: RowFilter) -> int:
        return await affected(self.conn, writes.delete(self.schema, model, row_filter))

    async def _find(self, model: Model, row_filter: RowFilter) -> Row | None:
        draft = Draft(self.schema)
        alias = draft.alias()
        columns, _ = _keys_of(model)(draft, alias)
        sql = f"select {columns} from {qualified(model.table)} {alias} where {row_filter(draft, model, alias)} limit 1"
        return await self._row(model, CompiledQuery(sql, draft.parameters))

    async def _row(self, model: Model, statement: CompiledQuery) -> Row | None:
        record = await self.conn.fetchrow(statement.sql, *statement.parameters)
        if record is None:
            return None
        return {name: codec_of(model.fields[name]).read(value) for name, value in record.items()}


async def affected(conn: Connection, statement: CompiledQuery) -> int:
    """Run a statement and return the number of rows that it wrote."""
    status: str = await conn.execute(statement.sql, *statement.parameters)
    return int(status.rpartition(" ")[2])


def _pairs(write: NestedWrite) -> Any:
    return zip(write.relation.own, write.relation.theirs, strict=True)


def _has_list_of(model: Model, write: NestedWrite) -> bool:
    """Whether many rows of the model may point to one row of the target."""
    return any(
        field.is_list
        and field.relation is not None
        and field.relation.target == model.name
        and (field.relation.own, field.relation.theirs) == (write.relation.theirs, write.relation.own)
        for field in write.target.fields.values()
    )


def _keys_of(model: Model) -> writes.Returning:
    """Select the fields by which the row is found again, and by which others point to it."""
    names = list(model.identity.fields)
    for field in model.fields.values():
        names += field.relation.own if field.relation is not None else ()

    def columns(draft: Draft, alias: str) -> tuple[str, tuple[Included, ...]]:
        fields = [model.fields[name] for name in dict.fromkeys(names)]
        selected = (f"{select_sql(field, column(alias, field))} as {quoted(field.name)}" for field in fields)
        return ", ".join(selected), ()

    return columns
