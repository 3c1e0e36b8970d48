"""query_raw and execute_raw: the caller's own SQL, with Prisma's `$1` and Prisma's types."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import orjson
from pydantic import BaseModel

from atlas.db.pool import Connection
from atlas.generated.fields import Base64, Json
from atlas.prisma_client.errors import wrong_value
from atlas.prisma_client.schema import Model, Schema
from atlas.prisma_client.values import Unfit, as_bytes, as_timestamp, dump_json

_JSON = ("json", "jsonb")


async def execute_raw(conn: Connection, query: str, parameters: Sequence[Any]) -> int:
    """Run it and say how many rows it touched."""
    statement = await conn.prepare(query)
    await statement.fetch(*_adapted(parameters, statement.get_parameters()))
    status = statement.get_statusmsg() or ""  # an empty query has none
    count = status.rpartition(" ")[2]
    return int(count) if count.isdigit() else 0


async def query_raw(
    conn: Connection, query: str, parameters: Sequence[Any], schema: Schema, result: type[BaseModel] | None
) -> dict[str, Any]:
    """Run it and return the shape that Prisma's deserialiser reads.

    For one of the schema's models, columns get the names of their fields. Without a model, JSON comes
    decoded; with one it stays text, which is what the models parse.
    """
    statement = await conn.prepare(query)
    records = await statement.fetch(*_adapted(parameters, statement.get_parameters()))
    attributes = statement.get_attributes()
    names = _field_names(schema, result)
    kinds = [attribute.type.name.removesuffix("[]") for attribute in attributes]
    decode = result is None
    return {
        "columns": [names.get(attribute.name, attribute.name) for attribute in attributes],
        "types": ["unknown" for _ in attributes],
        "rows": [
            [_read(value, kind, decode) for value, kind in zip(record.values(), kinds, strict=True)]
            for record in records
        ],
    }


def _adapted(parameters: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The values as asyncpg sends them. A wrong number of them is left for asyncpg to refuse."""
    kinds = [kind.name.removesuffix("[]") for kind in types]
    kinds += ["unknown"] * (len(parameters) - len(kinds))
    try:
        return [_adapt(value, kind) for value, kind in zip(parameters, kinds, strict=False)]
    except Unfit as unfit:
        raise wrong_value("parameters", str(unfit), parameters) from None


def _adapt(value: Any, kind: str) -> Any:
    if kind in _JSON and not isinstance(value, str | None):
        return dump_json(value if isinstance(value, Json) else Json(value))
    if isinstance(value, list | tuple):
        return [_adapt(item, kind) for item in value]
    match value:
        case Json():
            return dump_json(value)
        case Base64():
            return as_bytes(value)
        case datetime():
            timestamp = as_timestamp(value)
            return timestamp.replace(tzinfo=None) if kind == "timestamp" else timestamp
        case Enum():
            return value.value
        case UUID() | Decimal() if kind == "text":
            return str(value)
    return value


def _read(value: Any, kind: str, decode: bool) -> Any:
    if isinstance(value, list):
        return [_read(item, kind, decode) for item in value]
    if kind in _JSON and decode and isinstance(value, str):
        return orjson.loads(value)
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return str(value) if isinstance(value, UUID) else value


def _field_names(schema: Schema, result: type[BaseModel] | None) -> dict[str, str]:
    model: Model | None = schema.models.get(getattr(result, "__prisma_model__", ""))
    return {field.column: field.name for field in model.scalars} if model else {}
