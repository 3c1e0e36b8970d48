"""What a row brings along: its own columns, and the relations that `include` names.

An included relation is a subquery whose rows travel as JSON in one column. So a call is one statement and
shows one snapshot, however deep it reaches.
"""

from functools import cache
from typing import Any

import orjson
from pydantic import BaseModel

from atlas.generated.errors import UnknownRelationalFieldError
from atlas.prisma_client.compile.draft import Draft, Included, as_dict, column, quoted, scalar
from atlas.prisma_client.compile.pages import PAGE_ARGUMENTS, page_sql, parse_page
from atlas.prisma_client.compile.where import join_sql, target_of
from atlas.prisma_client.schema import Field, Model
from atlas.prisma_client.values import select_sql


def selection_sql(
    draft: Draft, model: Model, alias: str, result: type[BaseModel], include: Any
) -> tuple[str, tuple[Included, ...]]:
    """The columns of a call's rows, for the class that will hold them."""
    columns = columns_sql(alias, result, model)
    if include is None:
        return columns, ()
    for name in as_dict(include, f"{model.name}.include"):
        if name not in result.model_fields:
            raise UnknownRelationalFieldError(model=result.__name__, field=name)
    parts, included = _include(draft, model, alias, include)
    # As text at the outermost level, so that a pool with a JSON codec of its own changes nothing here.
    return ", ".join([columns, *(f"({sql})::text as {quoted(name)}" for name, sql in parts)]), included


@cache
def columns_sql(alias: str, result: type[BaseModel], model: Model) -> str:
    """The columns of the fields that a class declares: all of a generated model, fewer of a partial one."""
    names = [name for name in result.model_fields if not _is_relation(model, name)]
    return _columns(alias, tuple(scalar(model, name) for name in names))


def unpack(row: dict[str, Any], included: tuple[Included, ...]) -> None:
    """Turn the JSON of a row's relations into dicts and lists."""
    for relation in included:
        text = row[relation.name]
        row[relation.name] = None if text is None else orjson.loads(text)
    _turn(row, included)


def _turn(row: dict[str, Any], included: tuple[Included, ...]) -> None:
    for relation in included:
        related = row[relation.name]
        if relation.backwards:
            related.reverse()
        for item in related if isinstance(related, list) else [related]:
            if item is not None:
                _turn(item, relation.within)


def _is_relation(model: Model, name: str) -> bool:
    return name in model.fields and model.fields[name].relation is not None


@cache
def _columns(alias: str, fields: tuple[Field, ...]) -> str:
    return ", ".join(f"{select_sql(field, column(alias, field))} as {quoted(field.name)}" for field in fields)


def _include(
    draft: Draft, model: Model, alias: str, include: Any
) -> tuple[list[tuple[str, str]], tuple[Included, ...]]:
    """For each included relation its subquery, and what remains to be done with its JSON."""
    parts, included = [], []
    for name, value in as_dict(include, f"{model.name}.include").items():
        if not _is_relation(model, name):
            raise UnknownRelationalFieldError(model=model.name, field=name)
        if value is False:
            continue
        arguments = {} if value is True else dict(as_dict(value, f"{model.name}.include.{name}"))
        sql, part = _relation(draft, model, alias, model.fields[name], arguments)
        parts.append((name, sql))
        included.append(part)
    return parts, tuple(included)


def _relation(draft: Draft, model: Model, alias: str, field: Field, arguments: dict[str, Any]) -> tuple[str, Included]:
    nested = arguments.pop("include", None)
    target, other = target_of(draft.schema, field), draft.alias()
    page = parse_page(draft, target, arguments, PAGE_ARGUMENTS if field.is_list else (), stable=field.is_list)
    parts, within = _include(draft, target, other, {} if nested is None else nested)
    columns = ", ".join([_columns(other, target.scalars), *(f"({sql}) as {quoted(name)}" for name, sql in parts)])
    rows = page_sql(draft, target, other, columns, page, lambda inner: join_sql(model, alias, field, target, inner))
    whole = "coalesce(json_agg(r), '[]')" if field.is_list else "row_to_json(r)"
    return f"select {whole} from ({rows}) r", Included(field.name, page.backwards, within)
