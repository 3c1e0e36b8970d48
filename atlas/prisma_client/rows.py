"""Rows as instances of the generated models, made without validation.

The select list casts every column to what its field holds, so nothing is left to check, and little to convert: JSON,
decimals and bytes arrive as text. Validating a row of `jobs` takes three times as long. Related rows arrive as JSON;
they are validated.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import BaseModel

from atlas.generated import models
from atlas.prisma_client.nested_data import Row
from atlas.prisma_client.schema import Field, Model
from atlas.prisma_client.values import codec_of

Build = Callable[[Row], BaseModel]


def as_models(model: Model, result: type[BaseModel], rows: Any) -> Any:
    """A row, or a list of them, as the generated actions return them. They validate what is left a dict."""
    build = _builder(model, result)
    if build is None or rows is None:
        return rows
    return [build(row) for row in rows] if isinstance(rows, list) else build(rows)


@cache
def _builder(model: Model, result: type[BaseModel]) -> Build | None:
    """Makes the instance of a row; None for a class that is not generated, which may validate more."""
    if result is not getattr(models, model.name, None):
        return None
    fields = [model.fields[name] for name in result.model_fields]
    columns = [field for field in fields if field.relation is None]
    converted = [(field.name, convert) for field in columns if (convert := _conversion(field)) is not None]
    lists = [field.name for field in columns if field.is_list]  # an unset list is read as empty
    relations = [(field.name, field.type) for field in fields if field.relation is not None]
    field_names = {field.name for field in columns}
    put = object.__setattr__

    def build(row: Row) -> BaseModel:
        names = field_names.copy()
        for name, convert in converted:
            value = row[name]
            if value is not None:
                row[name] = convert(value)
        for name in lists:
            if row[name] is None:
                row[name] = []
        for name, target in relations:
            if name in row:
                names.add(name)
                row[name] = _related(getattr(models, target), row.pop(name))
            else:
                row[name] = None
        # What pydantic's `model_construct` does, without looking at every field again.
        instance: BaseModel = result.__new__(result)
        put(instance, "__dict__", row)
        put(instance, "__pydantic_fields_set__", names)
        put(instance, "__pydantic_extra__", None)
        put(instance, "__pydantic_private__", None)
        return instance

    return build


def _related(target: type[BaseModel], value: Any) -> Any:
    if isinstance(value, list):
        return [target.model_validate(row) for row in value]
    return None if value is None else target.model_validate(value)


def _conversion(field: Field) -> Callable[[Any], Any] | None:
    """What is to be done with a field's value that is not null; None if it can stay."""
    codec = codec_of(field)
    if not field.is_list or codec.decode is None:
        return codec.decode
    return lambda values: [codec.read(value) for value in values]
