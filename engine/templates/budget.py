"""How much one rendering may look at on its way, in characters: a filter may double what the one before it made."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

MOST_WORK = 16 * 1024 * 1024
# A value takes as long to look at as so many characters.
VALUE_WORK = 32
# To begin with an expression takes as long as so many.
EXPRESSION_WORK = 256
# A character beyond ASCII takes as long as so many of it.
FOREIGN_WORK = 4

_SHORT = {int, float, bool, type(None)}

# What is left to the rendering at hand.
_left: ContextVar[list[int]] = ContextVar("work")


@dataclass(slots=True)
class Budget:
    """What is left to all of the renderings that share it."""

    left: int


@contextmanager
def within_budget(shared: Budget | None = None) -> Iterator[None]:
    """One rendering, with all of its work before it, or what those before it have left."""
    most = MOST_WORK if shared is None else min(MOST_WORK, shared.left)
    left = [most]
    before = _left.set(left)
    try:
        yield
    finally:
        _left.reset(before)
        if shared is not None:
            shared.left -= most - left[0]


def spend(work: int) -> None:
    """Count so much work; too much of it is an error of the template."""
    left = _left.get()
    left[0] -= work
    if left[0] < 0:
        raise ValueError("takes more work than templates may make")


def length(value: Any) -> int:
    """What it costs to look at a value once."""
    if isinstance(value, str):
        return len(value) if value.isascii() else FOREIGN_WORK * len(value)
    return VALUE_WORK * len(value) if isinstance(value, Mapping | list | tuple) else 0


def look_over(value: Any, *, per_character: int = 1) -> None:
    """Count all that is in a value, however deep."""
    if isinstance(value, str):
        spend(per_character * length(value))
        return
    spend(length(value))
    if isinstance(value, Mapping):
        spend(sum(length(key) for key in value))
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for inner in value:
        if type(inner) not in _SHORT:
            look_over(inner, per_character=per_character)
