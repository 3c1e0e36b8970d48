"""One run of a recurring function: what the function is given, how it is called, and the outcome."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from atlas.db.pg_json import stored_text
from atlas.engine.jobs.handlers.around_job import call_async, within_hooks
from atlas.engine.jobs.start_right import NotStarted, StartRight
from atlas.engine.schedules.recurring_runs import ClaimedRecurringRun, Outcome
from atlas.errors import AtlasError, FieldError
from atlas.logs import get_logger
from atlas.threads import awaitable

# Takes a RecurringContext, or nothing. A plain function runs in a thread, an async one on the event loop.
Function = Callable[..., Any]

MAX_ERROR_LENGTH = 2000

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class RecurringContext:
    """One run, as its function sees it."""

    def __init__(self, run: ClaimedRecurringRun) -> None:
        self._run = run
        self._stop = threading.Event()
        # With the ids of the run bound.
        self.log = get_logger("recurring", **run.log_facts())

    @property
    def tenant_id(self) -> UUID:
        return self._run.key[0]

    @property
    def id(self) -> str:
        """The id under which the function is registered."""
        return self._run.key[1]

    @property
    def run_id(self) -> UUID:
        """The run in the history."""
        return self._run.id

    @property
    def attempt(self) -> int:
        """1, or more after runs for the same due time that were stopped or lost before they ended."""
        return self._run.attempt

    @property
    def cancelled(self) -> bool:
        """True once a function in a thread should stop: it timed out, its process stops, or its lease is over."""
        return self._stop.is_set()

    def stop(self) -> None:
        """For Atlas: ask a function in a thread to stop."""
        self._stop.set()


def check_function(function: Function) -> list[FieldError]:
    """What is wrong with a function's parameters."""
    required = _required(function)
    if len(required) > 1 or any(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in required):
        names = ", ".join(parameter.name for parameter in required)
        return [FieldError("fn", f"requires {names}; it may take its context, or nothing")]
    return []


async def run_function(
    function: Function, context: RecurringContext, timeout_seconds: float | None, right: StartRight
) -> tuple[Outcome, str | None]:
    """Call the function and return its outcome and error. Only a cancellation from outside is raised."""
    try:
        async with asyncio.timeout(timeout_seconds) as limit:
            await _call(function, context, right)
    except NotStarted:
        return "stopped", "It was claimed too long ago to start: Atlas may be offline by now. It is claimed again."
    except asyncio.CancelledError as raised:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _failed(raised)
    except (Exception, KeyboardInterrupt, SystemExit) as raised:
        if limit.expired():
            return "timeout", f"It took longer than {timeout_seconds} s."
        return _failed(raised)
    return "succeeded", None


async def _call(function: Function, context: RecurringContext, right: StartRight) -> None:
    called = partial(function, context) if _required(function) else function
    if inspect.iscoroutinefunction(function):
        right.check()
        await call_async(called)
        return

    def work() -> Any:
        right.check()
        return awaitable(within_hooks(called))()

    # A future, not a task: a task that ends in SystemExit ends the event loop too.
    call = partial(contextvars.copy_context().run, work)
    thread = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        returned = await asyncio.shield(thread)
    except asyncio.CancelledError:
        # A thread cannot be stopped: the run lasts until it returns.
        context.stop()
        await asyncio.wait([thread])
        raise
    if inspect.isawaitable(returned):
        # A plain function around an async one, such as a lambda.
        await returned


def _required(function: Function) -> list[inspect.Parameter]:
    """The parameters that a caller must give."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # Some functions written in C do not tell.
        return []
    return [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in _VARIADIC
    ]


def _failed(error: BaseException) -> tuple[Outcome, str]:
    kind, message = type(error).__name__, str(error).strip()
    text = message if isinstance(error, AtlasError) and message else f"{kind}: {message}" if message else kind
    return "failed", stored_text(text)[:MAX_ERROR_LENGTH]
