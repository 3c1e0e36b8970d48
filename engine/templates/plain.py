"""What an expression gives, as plain JSON."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from jinja2 import Undefined, UndefinedError

from atlas.engine.templates.budget import VALUE_WORK, spend


def plain(value: Any) -> Any:
    """The value as plain JSON; what is undefined anywhere in it, or not JSON, is an error."""
    spend(VALUE_WORK)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError("a whole number beyond 64 bits is not a JSON value")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a JSON value")
        return value
    if isinstance(value, Undefined):
        raise UndefinedError(value._undefined_message)
    if isinstance(value, Mapping):
        return {_text(str(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset | Iterator):
        return [plain(inner) for inner in value]
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _text(text: str) -> str:
    spend(len(text))
    if not text.isascii():
        text.encode()  # half a character is a ValueError
    return text


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()
