"""Checks the arguments that handlers and workflows pass: a wrong one is a sentence, not an error of a library."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from atlas.bounds import MAX_INTEGER
from atlas.engine.jobs.verdicts import PermanentError

MAX_SHOWN = 100


class WrongArgument(PermanentError):
    """A call has an argument of the wrong kind. Trying again would not help."""

    def __init__(self, call: str, name: str, expected: str, value: Any) -> None:
        text = repr(value)
        if len(text) > MAX_SHOWN:
            text = f"{text[:MAX_SHOWN]}…"
        super().__init__(f"{call} takes {expected} as {name}, not {text}.")


def require_text(call: str, name: str, value: Any, *, may_be_empty: bool = False) -> None:
    """A text, by default one that is not empty."""
    if not isinstance(value, str) or not (value or may_be_empty):
        raise WrongArgument(call, name, "a text", value)


def require_mapping(call: str, name: str, value: Any) -> None:
    """A mapping, or None."""
    if value is not None and not isinstance(value, Mapping):
        raise WrongArgument(call, name, "a mapping", value)


def require_whole(call: str, name: str, value: Any, *, least: int | None = None) -> None:
    """A whole number that the database can store."""
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER
    if not is_whole or (least is not None and value < least):
        raise WrongArgument(call, name, "a whole number" + (" of zero or more" if least == 0 else ""), value)


def require_progress(call: str, percent: Any, message: Any) -> None:
    """A number and a text, or None."""
    if message is not None:
        require_text(call, "message", message, may_be_empty=True)
    try:
        float(0 if percent is None else percent)
    except (TypeError, ValueError):
        raise WrongArgument(call, "percent", "a number", percent) from None


def require_function(call: str, name: str, value: Any) -> None:
    """Something that can be called."""
    if not callable(value):
        raise WrongArgument(call, name, "a function", value)


def require_async(call: str, name: str, value: Any) -> None:
    """A function whose call is awaited."""
    if not is_async(value):
        raise WrongArgument(call, name, "an async function", value)


def require_plain(call: str, name: str, value: Any) -> None:
    """A function that is called in a thread."""
    if not callable(value) or is_async(value):
        raise WrongArgument(call, name, "a plain function", value)


def is_async(function: Any) -> bool:
    """Whether its calls are awaited: an async function, method or object."""
    called: Callable[..., Awaitable[Any]] | None = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
