"""Reads JSON input quickly, and refuses what two parsers could understand differently.

`orjson` refuses NaN, infinities, broken text and lone surrogates. This also refuses duplicate keys, whole numbers that
orjson would round, U+0000, and structures that are too deep or too large. Most bodies take one parse and one
walk; only a few that look suspicious are parsed a second time.
"""

import json
from typing import Any

import orjson

from atlas.errors import FieldError, InvalidInput

DEEPEST = 32
MAX_NODES = 10_000
_LARGEST = 2**63


def read_json(body: bytes, *, max_nodes: int = MAX_NODES) -> Any:
    """The value of a body. Raises InvalidInput with what is wrong."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _refused(f"is not JSON: {error.msg} at character {error.pos}") from None
    keys, rounded = _walk(value, max_nodes)
    # Colons in strings count too, so more colons than keys may still be right.
    if rounded or body.count(b":") != keys:
        _read_slowly(body)
    if b"\\u0000" in body:
        _refuse_nul(value)
    return value


def _walk(value: Any, max_nodes: int) -> tuple[int, bool]:
    """How many keys there are, and whether a number is so large that it may have been rounded."""
    keys = nodes = 0
    rounded = False
    level = [value]
    for depth in range(DEEPEST + 1):
        below: list[Any] = []
        if depth == DEEPEST and any(type(item) in (dict, list) for item in level):
            break
        for item in level:
            kind = type(item)
            if kind is dict:
                keys += len(item)
                below.extend(item.values())
            elif kind is list:
                below.extend(item)
            elif kind is float and not -_LARGEST < item < _LARGEST:
                rounded = True
        nodes += len(level)
        if nodes > max_nodes:
            raise _refused(f"contains more than {max_nodes:,} values")
        if not below:
            return keys, rounded
        level = below
    raise _too_deep()


def _read_slowly(body: bytes) -> None:
    try:
        json.loads(body, object_pairs_hook=_each_once, parse_int=_whole)
    except RecursionError:
        raise _too_deep() from None


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _refused(f"names the key {twice[:50]!r} twice")


def _whole(digits: str) -> None:
    if len(digits) > 20 or not -_LARGEST <= int(digits) < 2 * _LARGEST:
        raise _refused("holds a whole number of more than 64 bits; send it as text")


def _refuse_nul(value: Any) -> None:
    if "\\u0000" in orjson.dumps(value).decode().replace("\\\\", ""):
        raise _refused("contains the character U+0000")


def _too_deep() -> InvalidInput:
    return _refused(f"is nested more than {DEEPEST} levels deep")


def _refused(reason: str) -> InvalidInput:
    return InvalidInput("The body", [FieldError("", reason)])
