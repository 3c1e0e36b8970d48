"""insert, update and delete, and what they give back."""

from collections.abc import Callable, Collection, Iterator
from typing import Any
from uuid import uuid4

from atlas.db.schema import qualified
from atlas.ids import new_id
from atlas.prisma_client.compile.draft import CompiledQuery, Draft, Included, as_dict, column, named, quoted, scalar
from atlas.prisma_client.compile.where import RowFilter
from atlas.prisma_client.errors import UnsupportedQuery, missing_value, wrong_value
from atlas.prisma_client.schema import Field, Model, Schema, UniqueKey
from atlas.prisma_client.values import codec_of

Returning = Callable[[Draft, str], tuple[str, tuple[Included, ...]]]

_ARITHMETIC = {"increment": "+", "decrement": "-", "multiply": "*", "divide": "/"}
_NUMBERS = ("Int", "BigInt", "Float", "Decimal")
_PARAMETER_LIMIT = 32_767  # of one statement, by Postgres's protocol


def insert(
    schema: Schema, model: Model, data: dict[str, Any], returning: Returning, conflict: UniqueKey | None = None
) -> CompiledQuery:
    """Insert one row. With `conflict`, a row that already holds that key is left alone and nothing comes back."""
    draft = Draft(schema)
    alias = draft.alias()
    values = new_values(draft, model, data)
    columns = ", ".join(quoted(field.column) for field in values)
    row = f"({columns}) values ({', '.join(values.values())})" if values else "default values"
    skip = ""
    if conflict is not None:
        held = ", ".join(quoted(model.fields[name].column) for name in conflict.fields)
        skip = f" on conflict ({held}) do nothing"
    result, included = _returning(draft, alias, returning)
    sql = f"insert into {qualified(model.table)} as {alias} {row}{skip}{result}"
    return CompiledQuery(sql, draft.parameters, included)


def insert_many(schema: Schema, model: Model, rows: Any, *, skip_duplicates: bool) -> Iterator[CompiledQuery]:
    """Insert rows that need not name the same fields, in as few statements as parameters allow."""
    if not isinstance(rows, list | tuple):
        raise wrong_value(f"{model.name}.data", "a list", rows)
    draft, batch = Draft(schema), list[dict[Field, str]]()
    for row in rows:
        if len(draft.parameters) + len(model.scalars) > _PARAMETER_LIMIT:
            yield _insert_batch(draft, model, batch, skip_duplicates)
            draft, batch = Draft(schema), []
        batch.append(new_values(draft, model, row))
    if batch:
        yield _insert_batch(draft, model, batch, skip_duplicates)


def update(
    schema: Schema, model: Model, row_filter: RowFilter, data: dict[str, Any], returning: Returning | None = None
) -> CompiledQuery | None:
    """Change the rows of a filter; None where there is nothing to change."""
    draft = Draft(schema)
    alias = draft.alias()
    changes = changes_sql(draft, model, alias, data)
    condition = row_filter(draft, model, alias)
    if not changes:
        return None
    result, included = _returning(draft, alias, returning)
    sql = f"update {qualified(model.table)} as {alias} set {changes} where {condition}{result}"
    return CompiledQuery(sql, draft.parameters, included)


def delete(schema: Schema, model: Model, row_filter: RowFilter, returning: Returning | None = None) -> CompiledQuery:
    """Remove the rows of a filter; what comes back is how they and their relations were."""
    draft = Draft(schema)
    alias = draft.alias()
    condition = row_filter(draft, model, alias)
    result, included = _returning(draft, alias, returning)
    sql = f"delete from {qualified(model.table)} as {alias} where {condition}{result}"
    return CompiledQuery(sql, draft.parameters, included)


def _returning(draft: Draft, alias: str, returning: Returning | None) -> tuple[str, tuple[Included, ...]]:
    if returning is None:
        return "", ()
    result, included = returning(draft, alias)
    return f" returning {result}", included


def _insert_batch(draft: Draft, model: Model, batch: list[dict[Field, str]], skip_duplicates: bool) -> CompiledQuery:
    used = {field for row in batch for field in row}
    fields = [field for field in model.scalars if field in used]
    fields = fields or [model.fields[name] for name in model.identity.fields]
    columns = ", ".join(quoted(field.column) for field in fields)
    rows = ", ".join(f"({', '.join(row.get(field, 'default') for field in fields)})" for row in batch)
    skip = " on conflict do nothing" if skip_duplicates else ""
    return CompiledQuery(f"insert into {qualified(model.table)} ({columns}) values {rows}{skip}", draft.parameters)


def new_values(draft: Draft, model: Model, data: dict[str, Any], supplied: Collection[str] = ()) -> dict[Field, str]:
    """What a new row sets. Fields left out take the database's default, or one that Prisma makes.

    Those `supplied` by a relation are not known yet.
    """
    for name in as_dict(data, f"{model.name}.data"):
        scalar(model, name)
    values = {}
    for field in model.scalars:
        if field.name in data:
            values[field] = _new_value(draft, field, data[field.name])
        elif field.name not in supplied and (default := _made_value(draft, field)) is not None:
            values[field] = default
    return values


def _new_value(draft: Draft, field: Field, value: Any) -> str:
    if field.is_list and isinstance(value, dict):
        value = named(value, field.label, ("set",)).get("set")
    if value is None and field.required:
        raise missing_value(field.label, "cannot be null")
    return draft.field_value(field, value)


def _made_value(draft: Draft, field: Field) -> str | None:
    """The value of a field that the caller left out, where the database does not supply it."""
    if field.updated_at:
        return _now(field)
    function = field.default.function if field.default else None
    if function == "uuid":
        value = new_id() if field.default and field.default.text == "7" else uuid4()
        return draft.parameter(codec_of(field), str(value), field.label)
    if function not in (None, "now", "autoincrement", "dbgenerated"):
        raise UnsupportedQuery(f"the default {function}() of {field.label}", remedy="Give the value yourself.")
    if field.default is None and field.required and not field.is_list:
        raise missing_value(field.label)
    return None


def _now(field: Field) -> str:
    return "clock_timestamp()" if field.pg_type == "timestamptz" else "clock_timestamp() at time zone 'UTC'"


def changes_sql(draft: Draft, model: Model, alias: str, data: dict[str, Any]) -> str:
    """What an update sets, and with it the time of the row's last change, if it has one."""
    fields = {scalar(model, name): value for name, value in as_dict(data, f"{model.name}.data").items()}
    changes = {field: _change(draft, alias, field, value) for field, value in fields.items()}
    for field in model.scalars:
        if changes and field.updated_at and field not in changes:
            changes[field] = _now(field)
    return ", ".join(f"{quoted(field.column)} = {sql}" for field, sql in changes.items())


def _change(draft: Draft, alias: str, field: Field, value: Any) -> str:
    if isinstance(value, dict):
        name, value = _operation(field, value)
        if name == "push":
            items = value if isinstance(value, list | tuple) else [value]
            return f"coalesce({column(alias, field)}, '{{}}') || {draft.field_value(field, items)}"
        if name != "set":
            amount = draft.parameter(codec_of(field), value, f"{field.label}.{name}")
            return f"{column(alias, field)} {_ARITHMETIC[name]} {amount}"
    if value is None and field.required:
        raise missing_value(field.label, "cannot be null")
    return draft.field_value(field, value)


def _operation(field: Field, change: dict[str, Any]) -> tuple[str, Any]:
    """The one operation of a change such as `{"increment": 1}`."""
    operations = {"set"} | ({"push"} if field.is_list else set())
    if field.type in _NUMBERS and not field.is_list:
        operations |= _ARITHMETIC.keys()
    entries = named(change, field.label, operations)
    if len(entries) != 1:
        raise wrong_value(field.label, "exactly one operation", change)
    return next(iter(entries.items()))
