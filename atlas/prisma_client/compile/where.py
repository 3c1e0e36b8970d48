"""The `where` of a call: fields, AND, OR, NOT, relations, and the unique keys of one row."""

from collections.abc import Callable
from typing import Any

from atlas.db.schema import qualified
from atlas.prisma_client.compile.draft import Draft, as_dict, column, named, scalar
from atlas.prisma_client.compile.filters import Operand, list_filter, value_filter
from atlas.prisma_client.errors import UnsupportedQuery, missing_value, unknown_field, wrong_value
from atlas.prisma_client.schema import Field, Model, Schema, UniqueKey
from atlas.prisma_client.values import codec_of

Condition = Callable[[str, Any], str]


def where_sql(draft: Draft, model: Model, alias: str, tree: Any) -> str:
    """The condition on one row of the model; nothing wanted is `true`."""

    def on_field(name: str, wanted: Any) -> str:
        field = model.fields.get(name)
        if field is not None and field.relation is not None:
            return _relation_filter(draft, model, alias, field, wanted)
        return field_filter(draft, alias, scalar(model, name), wanted)

    return logic_sql(tree, f"{model.name}.where", on_field)


def unique_sql(draft: Draft, model: Model, alias: str, tree: Any) -> str:
    """The condition that finds one row: a whole unique key, and more filters if wanted."""
    rest = dict(as_dict(tree, f"{model.name}.where"))
    parts = []
    for key in model.keys:
        if key.name in rest:
            values = key_values(model, key, rest.pop(key.name))
            parts += [_equals(draft, alias, model.fields[name], value) for name, value in values.items()]
    if not parts:
        keys = " or ".join(f"`{key.name}`" for key in model.keys)
        raise missing_value(f"{model.name}.where", f"needs {keys}")
    if rest:
        parts.append(where_sql(draft, model, alias, rest))
    return " and ".join(parts)


def key_values(model: Model, key: UniqueKey, given: Any) -> dict[str, Any]:
    """The values of a unique key by field, none of them missing or null."""
    values = {key.name: given} if key.fields == (key.name,) else as_dict(given, f"{model.name}.{key.name}")
    for name in key.fields:
        if values.get(name) is None:
            raise missing_value(f"{model.name}.{name}", f"is part of the key `{key.name}`")
    if len(values) > len(key.fields):
        raise unknown_field(model, f"{key.name}.{(values.keys() - set(key.fields)).pop()}")
    return values


def field_filter(draft: Draft, alias: str, field: Field, wanted: Any) -> str:
    """The condition on one column."""
    operand = Operand(column(alias, field), codec_of(field), field.label, not field.required)
    return list_filter(draft, operand, wanted) if field.is_list else value_filter(draft, operand, wanted)


def logic_sql(tree: Any, label: str, condition: Condition) -> str:
    """AND, OR and NOT over whatever `condition` makes of the other keys."""
    if tree is None:
        return "true"
    parts = []
    for name, value in as_dict(tree, label).items():
        if name in ("AND", "OR", "NOT"):
            parts.append(_joined(name, _branches(value, label), label, condition))
        else:
            parts.append(condition(name, value))
    return " and ".join(parts) or "true"


def _branches(value: Any, label: str) -> list[dict[str, Any]]:
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list | tuple):
        raise wrong_value(label, "a dict or a list of dicts", value)
    return [as_dict(branch, label) for branch in listed]


def _joined(name: str, branches: list[dict[str, Any]], label: str, condition: Condition) -> str:
    """No branch at all: AND and NOT ask for nothing, OR finds nothing. An empty branch asks for nothing."""
    if name == "OR" and not all(branches):
        return "true" if branches else "false"
    conditions = [logic_sql(branch, label, condition) for branch in branches if branch]
    if name == "OR":
        return f"({' or '.join(conditions) or 'false'})"
    if name == "NOT":
        conditions = [f"not ({each})" for each in conditions]
    return f"({' and '.join(conditions) or 'true'})"


def _equals(draft: Draft, alias: str, field: Field, value: Any) -> str:
    return f"{column(alias, field)} = {draft.field_value(field, value)}"


def _relation_filter(draft: Draft, model: Model, alias: str, field: Field, wanted: Any) -> str:
    if field.is_list:
        entries = named(wanted, field.label, ("some", "every", "none"))
    elif wanted is None:
        entries = {"is": None}
    else:
        # Prisma also takes the related row's filter directly, without `is`.
        is_direct = not as_dict(wanted, field.label).keys() <= {"is", "is_not", "isNot"}
        entries = {"is": wanted} if is_direct else named(wanted, field.label, ("is", "is_not"))
    parts = [_related(draft, model, alias, field, *entry) for entry in entries.items()]
    return " and ".join(parts) or "true"


def _related(draft: Draft, model: Model, alias: str, field: Field, name: str, tree: Any) -> str:
    target, other = target_of(draft.schema, field), draft.alias()
    condition = where_sql(draft, target, other, tree)
    if name == "every":
        condition = f"not ({condition})"
    wants_absence = name in ("none", "every", "is_not")
    if tree is None and field.is_list:
        raise wrong_value(f"{field.label}.{name}", "a dict", tree)
    if tree is None:  # `is: None` asks for no related row, `is_not: None` for one
        wants_absence = not wants_absence
    joined = join_sql(model, alias, field, target, other)
    found = f"exists (select from {qualified(target.table)} {other} where {joined} and {condition})"
    return f"not {found}" if wants_absence else found


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
