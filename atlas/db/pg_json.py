"""Text and JSON as Postgres takes them: it refuses NUL and lone surrogates, and people's words may hold either.

A lone surrogate is what Python makes of a byte that is not UTF-8, in the name of a file say. Each such character
becomes U+FFFD.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import orjson

# The escape itself, not an escaped backslash before the same letters.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def stored_text(text: str) -> str:
    """The text without what Postgres refuses."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = _whole(text)
    return text.replace("\0", "\ufffd")


def stored_json(value: Any, *, default: Callable[[Any], Any] | None = str) -> str:
    """The value as JSON text without what Postgres refuses. `default` makes something plain of what is not."""
    try:
        text = orjson.dumps(value, default=default)
    except TypeError:
        # Looked for only now: nearly every value is whole, and a walk through it takes longer than the rest.
        text = orjson.dumps(_mended(value), default=None if default is None else lambda one: _mended(default(one)))
    return without_nul(text.decode())


def read_stored(text: str) -> Any:
    """What a JSON text of the database says. A number beyond a float's reach, which jsonb holds, comes as digits."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, parse_float=_real, parse_int=_whole_number)


def without_nul(text: str) -> str:
    """JSON text whose strings hold no NUL."""
    return _NUL.sub(r"\1\\ufffd", text) if "\\u0000" in text else text


def holds_nul(text: str) -> bool:
    """True where a string of a JSON text holds a NUL."""
    return "\\u0000" in text and _NUL.search(text) is not None


def is_larger(text: str, limit: int) -> bool:
    """True for a text of more than `limit` bytes of UTF-8, which has at most four for a character."""
    return len(text) * 4 > limit and len(text.encode()) > limit


def _real(digits: str) -> float | str:
    number = float(digits)
    return digits if math.isinf(number) else number


def _whole_number(digits: str) -> int | float | str:
    return int(digits) if len(digits) <= 18 else _real(digits)


def _mended(value: Any) -> Any:
    match value:
        case str():
            return _whole(value)
        case dict():
            return {_mended(name): _mended(item) for name, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value


def _whole(text: str) -> str:
    # In UTF-16 two halves of a character that stand side by side become that character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
