"""How much one rendering may look at on its way, in characters: a filter may double what the one before it made."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MOST_WORK = 16 * 1024 * 1024
# A value takes as long to look at as so many characters.
VALUE_WORK = 32
# A character beyond ASCII takes as long as so many of it.
FOREIGN_WORK = 4

# What is left to the rendering at hand.
_left: ContextVar[list[int]] = ContextVar("work")


@contextmanager
def within_budget() -> Iterator[None]:
    """One rendering, with all of its work before it."""
    before = _left.set([MOST_WORK])
    try:
        yield
    finally:
        _left.reset(before)


def spend(work: int) -> None:
    """Count so much work; too much of it is an error of the template."""
    left = _left.get()
    left[0] -= work
    if left[0] < 0:
        raise ValueError("takes more work than a template may make")


def length(value: Any) -> int:
    """What it costs to look at a value once."""
    if isinstance(value, str):
        return len(value) if value.isascii() else FOREIGN_WORK * len(value)
    return VALUE_WORK * len(value) if isinstance(value, Mapping | list | tuple) else 0


def look_over(value: Any, price: int) -> None:
    """Count all that is in a value, however deep: its texts, and so much for every value."""
    spend(price)
    if isinstance(value, str):
        spend(length(value))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            look_over(key, price)
            look_over(inner, price)
    elif isinstance(value, list | tuple):
        for inner in value:
            look_over(inner, price)
