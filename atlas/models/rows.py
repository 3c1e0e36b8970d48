"""Rows of the database as public models: one function for all of them."""

from collections.abc import Iterable
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import orjson
from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)


class _Field(NamedTuple):
    """A field of a model: its key, its column, its name in `schema.prisma`, and whether its column is JSON."""

    key: str
    column: str
    prisma_name: str
    is_json: bool


def from_row(model: type[M], row: Any, **values: Any) -> M:
    """The model of a row. `values` are those of the fields that the row lacks, or has in another form.

    A row of the typed client, a model or a dict, has the names of `schema.prisma`. A row of a statement has the names
    of its columns, and JSON as text.
    """
    fields = _fields(model)
    if isinstance(row, BaseModel | dict):
        stored = row if isinstance(row, dict) else row.__dict__
        stored_values = {field.key: stored[field.prisma_name] for field in fields if field.prisma_name in stored}
    else:
        stored_values = {field.key: _read(row[field.column], field) for field in fields if field.column in row}
    return model.model_validate(stored_values | values)


def from_rows(model: type[M], rows: Iterable[Any]) -> list[M]:
    """The models of some rows, in their order."""
    return [from_row(model, row) for row in rows]


def _read(value: Any, field: _Field) -> Any:
    return orjson.loads(value) if field.is_json and isinstance(value, str) else value


@cache
def _fields(model: type[BaseModel]) -> list[_Field]:
    return [
        _Field(info.alias or name, name, prisma_name(name), _is_json(info.annotation))
        for name, info in model.model_fields.items()
    ]


def prisma_name(column: str) -> str:
    """The name of a column in `schema.prisma`."""
    first, *more = column.split("_")
    return first + "".join(word.capitalize() for word in more)


def _is_json(annotation: Any) -> bool:
    """True for the types that a JSON column holds. A text in any other column stays a text."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    if NoneType in get_args(annotation) and len(kinds) == 1:
        return _is_json(kinds[0])
    origin = get_origin(annotation) or annotation
    return annotation is Any or (isinstance(origin, type) and issubclass(origin, (dict, list, BaseModel)))
