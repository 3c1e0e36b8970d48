"""Hooks that run around every call of a handler, a workflow's step or a recurring function: `@around_job`.

A library that keeps something for each thread or task, such as Django its connections, cleans it up there.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from atlas.errors import AtlasError

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[[], Iterator[None] | AsyncIterator[None]])


class InvalidHook(AtlasError):
    """A function decorated with @around_job is not a generator without parameters."""


# By the name of the function, so that a module that is loaded twice registers its hooks once.
_plain: dict[str, Callable[[], AbstractContextManager[None]]] = {}
_async: dict[str, Callable[[], AbstractAsyncContextManager[None]]] = {}


def around_job(function: F) -> F:
    """Run the decorated generator around every job of this process: what precedes its `yield` before, the rest after.

    A plain generator runs around functions that are called in a thread, in that thread. An async generator runs around
    async functions, on the event loop. An exception in it counts as one of the job.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    if inspect.signature(function).parameters:
        raise InvalidHook(f"The hook {name} takes parameters.", remedy="Write it as a generator without parameters.")
    called: Any = function
    if inspect.isasyncgenfunction(function):
        _async[name] = asynccontextmanager(called)
    elif inspect.isgeneratorfunction(function):
        _plain[name] = contextmanager(called)
    else:
        raise InvalidHook(
            f"The hook {name} is not a generator.",
            remedy="Put one `yield` between what happens before a job and after it.",
        )
    return function


def has_async_hooks() -> bool:
    """True if a hook runs around async functions."""
    return bool(_async)


async def call_async(function: Callable[P, Awaitable[T]], *arguments: P.args, **options: P.kwargs) -> T:
    """Call an async function within the hooks."""
    async with AsyncExitStack() as hooks:
        for hook in _async.values():
            await hooks.enter_async_context(hook())
        return await function(*arguments, **options)


def within_hooks(function: Callable[P, T]) -> Callable[P, T]:
    """A function for a thread, which calls this one within the hooks."""
    if not _plain:
        return function

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        with ExitStack() as hooks:
            for hook in _plain.values():
                hooks.enter_context(hook())
            return function(*arguments, **options)

    return call
