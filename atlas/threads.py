"""Functions that run in a thread while a task waits for them."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def awaitable(function: Callable[P, T]) -> Callable[P, T]:
    """The function, for a thread that is awaited.

    A future refuses StopIteration, which one `next` too many raises, and who waits for it would wait for ever.
    """

    def call(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return function(*arguments, **options)
        except StopIteration as error:
            raise RuntimeError("the function raised StopIteration") from error

    return call
