"""Answers that are written at once, without a detour through a model."""

from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response


def json_bytes(value: Any) -> bytes:
    """A value as JSON; ids and moments become text, dataclasses and models objects."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_UTC_Z)


def json_answer(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer of bytes that are JSON."""
    return Response(body, status, headers, "application/json")


def _plain(value: Any) -> Any:
    # asyncpg's ids are a subclass of UUID, which orjson leaves to us.
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)
