"""Prepares functions to run in a thread that a task awaits."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def awaitable(function: Callable[P, T]) -> Callable[P, T]:
    """The function with StopIteration and GeneratorExit turned into RuntimeError.

    A future refuses StopIteration, which one `next` too many raises, and the task would wait for ever. GeneratorExit
    would close the coroutines that wait for the function, instead of being raised in them.
    """

    def call(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return function(*arguments, **options)
        except (StopIteration, GeneratorExit) as error:
            raise RuntimeError(f"the function raised {type(error).__name__}") from error

    return call
