"""The `where` of a call: fields, AND, OR, NOT, relations, and the unique keys of one row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atlas.db.schema import qualified
from atlas.prisma_client.compile.draft import Draft, as_dict, column, named, scalar
from atlas.prisma_client.compile.filters import Operand, list_filter, value_filter
from atlas.prisma_client.compile.json_filters import json_filter
from atlas.prisma_client.errors import UnsupportedQuery, missing_value, unknown_field, wrong_value
from atlas.prisma_client.schema import Field, Model, Schema, UniqueKey
from atlas.prisma_client.values import codec_of

Condition = Callable[[str, Any], str | None]
# The condition on the rows of a model behind an alias, for a statement still to be written.
RowFilter = Callable[[Draft, Model, str], str]


def matching(tree: Any) -> RowFilter:
    """The rows that a filter finds."""
    return lambda draft, model, alias: where_sql(draft, model, alias, tree)


def by_key(tree: Any) -> RowFilter:
    """The rows that the filter of an update or a delete finds; see `_related`."""

    def row_filter(draft: Draft, model: Model, alias: str) -> str:
        draft.by_key = True
        return where_sql(draft, model, alias, tree)

    return row_filter


def unique(tree: Any) -> RowFilter:
    """The row that a unique key names."""
    return lambda draft, model, alias: unique_sql(draft, model, alias, tree)


def holding(values: Mapping[str, Any]) -> RowFilter:
    """The rows with these values, none of which is null."""
    return lambda draft, model, alias: " and ".join(
        _equals(draft, alias, model.fields[name], value) for name, value in values.items()
    )


def all_of(*filters: RowFilter) -> RowFilter:
    """The rows that all of them want."""
    return lambda draft, model, alias: " and ".join(f"({row_filter(draft, model, alias)})" for row_filter in filters)


def none_of(filters: Sequence[RowFilter]) -> RowFilter:
    """The rows that none of them wants."""
    return lambda draft, model, alias: f"({any_of(filters)(draft, model, alias)}) is not true"


def any_of(filters: Sequence[RowFilter]) -> RowFilter:
    """The rows that at least one of them wants."""
    return lambda draft, model, alias: (
        " or ".join(f"({row_filter(draft, model, alias)})" for row_filter in filters) or "false"
    )


def where_sql(draft: Draft, model: Model, alias: str, tree: Any) -> str:
    """The condition on one row of the model; an empty filter is `true`."""

    def on_field(name: str, filter_value: Any) -> str | None:
        field = model.fields.get(name)
        if field is not None and field.relation is not None:
            return _relation_filter(draft, model, alias, field, filter_value)
        field = scalar(model, name)
        return field_filter(draft, column(alias, field), field, filter_value)

    return logic_sql(draft, tree, f"{model.name}.where", on_field) or "true"


def unique_sql(draft: Draft, model: Model, alias: str, tree: Any) -> str:
    """The condition that finds one row: a whole unique key, and perhaps more filters."""
    rest = dict(as_dict(tree, f"{model.name}.where"))
    parts = []
    for key in model.keys:
        if key.name in rest:
            values = key_values(model, key, rest.pop(key.name))
            parts += [_equals(draft, alias, model.fields[name], value) for name, value in values.items()]
    if not parts:
        keys = " or ".join(f"`{key.name}`" for key in model.keys)
        raise wrong_value(f"{model.name}.where", f"a whole key ({keys})", tree)
    if rest:
        parts.append(where_sql(draft, model, alias, rest))
    return " and ".join(parts)


def key_values(model: Model, key: UniqueKey, key_value: Any) -> dict[str, Any]:
    """The values of a unique key by field, none of them missing or null."""
    values = {key.name: key_value} if key.fields == (key.name,) else as_dict(key_value, f"{model.name}.{key.name}")
    for name in key.fields:
        if values.get(name) is None:
            raise missing_value(f"{model.name}.{name}", f"is part of the key `{key.name}`")
    if len(values) > len(key.fields):
        raise unknown_field(model.name, f"{key.name}.{(values.keys() - set(key.fields)).pop()}")
    return values


def field_filter(draft: Draft, sql: str, field: Field, filter_value: Any) -> str | None:
    """The condition on a column, or on an expression of its type; None without a filter."""
    if field.type == "Json" and not field.is_list:
        return json_filter(draft, field, sql, filter_value)
    operand = Operand(sql, codec_of(field), field.label, not field.required)
    return list_filter(draft, operand, filter_value) if field.is_list else value_filter(draft, operand, filter_value)


def logic_sql(draft: Draft, tree: Any, label: str, condition: Condition, *, nested: bool = False) -> str | None:
    """AND, OR and NOT over whatever `condition` makes of the other keys; None without a filter.

    As in Prisma, an empty filter is left out of the group that it stands in. A group with no filter left wants
    nothing; only an OR at the outermost level then finds nothing.
    """
    if tree is None:
        return None
    parts = []
    for name, value in as_dict(tree, label).items():
        if name in ("AND", "OR", "NOT"):
            part = _group(draft, name, _branches(name, value, label), label, condition, nested)
        else:
            part = condition(name, value)
        parts += [part] if part else []
    return " and ".join(parts) or None


def _branches(name: str, value: Any, label: str) -> list[dict[str, Any]]:
    listed = [value] if isinstance(value, dict) and name != "OR" else value
    if not isinstance(listed, list | tuple):
        raise wrong_value(label, "a dict or a list of dicts", value)
    return [as_dict(branch, label) for branch in listed]


def _group(
    draft: Draft, name: str, branches: list[dict[str, Any]], label: str, condition: Condition, nested: bool
) -> str | None:
    draft.negated ^= name == "NOT"
    parts = [logic_sql(draft, branch, label, condition, nested=True) for branch in branches]
    draft.negated ^= name == "NOT"
    conditions = [part for part in parts if part is not None]
    if not conditions:
        return "false" if name == "OR" and not nested else None
    if name == "NOT":
        conditions = [f"not ({condition})" for condition in conditions]
    return f"({(' or ' if name == 'OR' else ' and ').join(conditions)})"


def _equals(draft: Draft, alias: str, field: Field, value: Any) -> str:
    return f"{column(alias, field)} = {draft.field_value(field, value)}"


def _relation_filter(draft: Draft, model: Model, alias: str, field: Field, filter_value: Any) -> str | None:
    if field.is_list:
        entries = named(filter_value, field.label, ("some", "every", "none"))
        return " and ".join(_list_related(draft, model, alias, field, *entry) for entry in entries.items()) or None
    if filter_value is None:
        entries = {"is": None}
    else:
        # Prisma also takes the related row's filter directly, without `is`.
        is_direct = not as_dict(filter_value, field.label).keys() <= {"is", "is_not", "isNot"}
        entries = {"is": filter_value} if is_direct else named(filter_value, field.label, ("is", "is_not"))
    return " and ".join(_related(draft, model, alias, field, *entry) for entry in entries.items()) or None


def _list_related(draft: Draft, model: Model, alias: str, field: Field, name: str, tree: Any) -> str:
    if tree is None:
        raise wrong_value(f"{field.label}.{name}", "a dict", tree)
    with draft.inside_relation(negated=draft.negated):
        other = draft.alias()
        condition = where_sql(draft, target_of(draft.schema, field), other, tree)
    condition = f"not ({condition})" if name == "every" else condition
    exists = _exists(draft, model, alias, field, other, condition)
    return exists if name == "some" else f"not {exists}"


def _related(draft: Draft, model: Model, alias: str, field: Field, name: str, tree: Any) -> str:
    """`is` and `is_not`. A related row of which the filter is unknown, because of a null, is neither.

    That is so for reads. For the rows that an update or a delete wants, Prisma asks otherwise: those whose key is among
    the keys of such rows, or not among them; a row without a related one is neither.
    """
    if tree is None:  # `is: None` asks for no related row, `is_not: None` for one
        exists = _exists(draft, model, alias, field, draft.alias(), "true")
        return f"not {exists}" if name == "is" else exists
    negated = draft.negated != (name == "is_not")
    by_key = draft.by_key
    with draft.inside_relation(negated=negated):
        other = draft.alias()
        condition = where_sql(draft, target_of(draft.schema, field), other, tree)
    if by_key:
        return _among_keys(draft, model, alias, field, other, condition, name)
    exists = _exists(draft, model, alias, field, other, f"({condition}) is not false" if negated else condition)
    return f"not {exists}" if name == "is_not" else exists


def _exists(draft: Draft, model: Model, alias: str, field: Field, other: str, condition: str) -> str:
    target = target_of(draft.schema, field)
    joined = join_sql(model, alias, field, target, other)
    return f"exists (select from {qualified(target.table)} {other} where {joined} and {condition})"


def _among_keys(draft: Draft, model: Model, alias: str, field: Field, other: str, condition: str, name: str) -> str:
    assert field.relation is not None
    target = target_of(draft.schema, field)
    own = ", ".join(column(alias, model.fields[part]) for part in field.relation.own)
    theirs = [column(other, target.fields[part]) for part in field.relation.theirs]
    held = " and ".join(f"{part} is not null" for part in theirs)
    keys = f"select {', '.join(theirs)} from {qualified(target.table)} {other} where {condition} and {held}"
    return f"({own}) {'not in' if name == 'is_not' else 'in'} ({keys})"


def target_of(schema: Schema, field: Field) -> Model:
    """The model on the other side of a relation."""
    assert field.relation is not None
    if not field.relation.own:
        raise UnsupportedQuery(f"the many-to-many relation {field.label}")
    return schema.models[field.relation.target]


def join_sql(model: Model, alias: str, field: Field, target: Model, other: str) -> str:
    """What makes a row of the target belong to this row."""
    assert field.relation is not None
    pairs = zip(field.relation.own, field.relation.theirs, strict=True)
    return " and ".join(
        f"{column(other, target.fields[theirs])} = {column(alias, model.fields[own])}" for own, theirs in pairs
    )
