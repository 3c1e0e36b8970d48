"""Answers that are written at once, without a detour through a model."""

from typing import Any

import orjson
from starlette.responses import Response


def json_bytes(value: Any) -> bytes:
    """A value as JSON; ids and moments become text, dataclasses objects."""
    # asyncpg's ids are a subclass of UUID, which orjson leaves to us.
    return orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z)


def json_answer(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer of bytes that are JSON."""
    return Response(body, status, headers, "application/json")
