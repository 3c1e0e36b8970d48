"""Prepares functions to run in a thread that a task awaits."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def awaitable(function: Callable[P, T]) -> Callable[P, T]:
    """The function with StopIteration turned into RuntimeError.

    A future refuses StopIteration, which one `next` too many raises, and the task would wait for ever.
    """

    def call(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return function(*arguments, **options)
        except StopIteration as error:
            raise RuntimeError("the function raised StopIteration") from error

    return call
