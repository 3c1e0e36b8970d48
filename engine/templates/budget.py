"""How much one rendering may look at on its way, in characters: a filter may double what the one before it made."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MOST_WORK = 16 * 1024 * 1024
# A value takes as long to look at as so many characters.
VALUE_WORK = 32

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
        return len(value)
    return VALUE_WORK * len(value) if isinstance(value, Mapping | list | tuple) else 0
