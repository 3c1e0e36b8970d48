"""Makes text and JSON fit for Postgres, which refuses NUL and lone surrogates.

Python makes a lone surrogate of a byte that is not UTF-8, for example in a file name. It becomes U+FFFD.
"""

import json
import math
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import orjson

# A value this many times larger than its limit is refused without conversion.
FAR_LARGER = 8
# How many values of an object and of a list are looked at for that, and how deep.
FEW_VALUES, FEW_ITEMS, DEEPEST = 16, 3, 4
_CONTAINERS = frozenset({list, tuple, dict})
# The escape itself, not an escaped backslash before the same letters.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def stored_text(text: str) -> str:
    """The text without what Postgres refuses."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = _replace_surrogates(text)
    return text.replace("\0", "\ufffd")


class TooLarge(Exception):
    """A value has more bytes as JSON than it may have. Its text is the number of bytes, or a bound that it exceeds."""

    def __init__(self, size: int, *, is_bound: bool = False) -> None:
        super().__init__(f"more than {size:,}" if is_bound else f"{size:,}")


def refuse_far_larger(value: Any, limit: int) -> None:
    """Raise TooLarge for what is several times `limit`, without converting it: that would hold the event loop.

    This is done for every output. So a few of the values in it speak for the rest, and only what seems to be too large
    is counted.
    """
    kind = type(value)
    size = len(value) if kind is str else _estimated(value, DEEPEST) if kind in _CONTAINERS else 0
    if size > FAR_LARGER * limit:
        _refuse_far_larger_inside(value, limit)


def _estimated(value: Any, deepest: int) -> float:
    """About how many characters and values there are in a container."""
    count, size = len(value), 0.0
    few = FEW_VALUES if type(value) is dict else FEW_ITEMS
    parts = value.values() if type(value) is dict else value
    for part in parts if count <= few else islice(parts, few):
        kind = type(part)
        if kind is str:
            size += len(part)
        elif kind in _CONTAINERS and deepest:
            size += _estimated(part, deepest - 1)
    return count + (size if count <= few else size * count / few)


def _refuse_far_larger_inside(value: Any, limit: int) -> None:
    """The same for the value and everything in it. It counts characters and values, which are fewer than the bytes."""
    bound = FAR_LARGER * limit
    size, rest = 0, [value]
    while rest and size <= bound:
        part = rest.pop()
        if type(part) is str:
            size += len(part)
        elif type(part) in _CONTAINERS:
            size += len(part)
            if size <= bound:
                rest.extend(part.values() if type(part) is dict else part)
    if size > bound:
        raise TooLarge(bound, is_bound=True)


def stored_json(value: Any, *, default: Callable[[Any], Any] | None = str, limit: int | None = None) -> str:
    """The value as JSON text without what Postgres refuses. `default` converts objects that JSON does not know.

    Raises TooLarge if it has more than `limit` bytes.
    """
    if limit is not None:
        refuse_far_larger(value, limit)
    try:
        text = orjson.dumps(value, default=default)
    except TypeError:
        if limit is not None:
            # Repairing 100 MB takes 25 s.
            _refuse_far_larger_inside(value, limit)
        # Only now: nearly every value is fine, and walking through it takes longer than the rest.
        text = orjson.dumps(
            _repaired(value),
            default=None if default is None else lambda value: _repaired(default(value)),
        )
    if limit is not None and len(text) > limit:
        raise TooLarge(len(text))
    return without_nul(text.decode())


def read_stored(text: str) -> Any:
    """The value of a JSON text from the database. A number that no float can hold, but jsonb can, comes as a string."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, parse_float=_real, parse_int=_whole_number)


def without_nul(text: str) -> str:
    """The JSON text with U+FFFD in place of NUL."""
    return _NUL.sub(r"\1\\ufffd", text) if "\\u0000" in text else text


def holds_nul(text: str) -> bool:
    """Whether a string in a JSON text holds a NUL."""
    return "\\u0000" in text and _NUL.search(text) is not None


def is_larger(text: str, limit: int) -> bool:
    """Whether a text has more than `limit` bytes in UTF-8, which has one to four a character."""
    return len(text) * 4 > limit and (len(text) > limit or len(text.encode()) > limit)


def byte_size(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def _real(digits: str) -> float | str:
    number = float(digits)
    return digits if math.isinf(number) else number


def _whole_number(digits: str) -> int | float | str:
    return int(digits) if len(digits) <= 18 else _real(digits)


def _repaired(value: Any) -> Any:
    match value:
        case str():
            return _replace_surrogates(value)
        case dict():
            return {_repaired(name): _repaired(item) for name, item in value.items()}
        case list() | tuple():
            return [_repaired(item) for item in value]
        case _:
            return value


def _replace_surrogates(text: str) -> str:
    # In UTF-16 two halves of a character side by side become that character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
