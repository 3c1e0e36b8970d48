"""Which attempt the running code belongs to, and the log handler that keeps what it logs with that attempt.

The task of a slot has a variable that leads to the slot, and so to the attempt that the slot runs: it is set once, and
costs a job nothing. A task that a handler starts gets a variable that leads to the handler's attempt for good, when it
is created. So a task that outlasts its job does not log to the next job of the slot, which may be another tenant's. A
thread may outlast an attempt that was cancelled: the slot then gets a new task, and the old variable leads nowhere.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.verdicts import LOG_TAIL
from atlas.logs import JOB_LOGGER, KeepingHandler
from atlas.programs.runner import Stream
from atlas.workers.commands.output import stored_text_of

# Returns the attempt, or None between two.
FindAttempt = Callable[[], AttemptContext | None]

_find: ContextVar[FindAttempt] = ContextVar("find_attempt")


class OfSlot:
    """Finds the attempt of a slot, until it is detached."""

    __slots__ = ("_find",)

    def __init__(self, find: FindAttempt) -> None:
        self._find: FindAttempt | None = find

    def __call__(self) -> AttemptContext | None:
        return None if self._find is None else self._find()

    def detach(self) -> None:
        """Find nothing any more."""
        self._find = None


def attempt_in(variables: Context) -> AttemptContext | None:
    """The attempt that code with these variables runs for."""
    find = variables.get(_find)
    return None if find is None else find()


def lead_to(variables: Context, find: FindAttempt) -> None:
    """Let code with these variables run for that attempt."""
    variables.run(_find.set, find)


def pinned(attempt: AttemptContext) -> Context:
    """The present variables, which lead to this attempt for good."""
    variables = copy_context()
    lead_to(variables, lambda: attempt)
    return variables


class AttemptLogHandler(KeepingHandler):
    """Keeps what code logs through the standard library's logging while it runs for an attempt."""

    def emit(self, record: logging.LogRecord) -> None:
        find = _find.get(None)
        attempt = None if find is None else find()
        # The lines of `ctx.log` are kept by itself.
        if attempt is None or record.name == JOB_LOGGER:
            return
        try:
            attempt.attempt_log.add_record(record)
        except Exception:
            self.handleError(record)


def _is_written(record: logging.LogRecord) -> bool:
    """Whether the log of the worker gets a line: not from an attempt that has logged too many."""
    find = _find.get(None)
    attempt = None if find is None else find()
    is_over = attempt is not None and attempt.kept_log is not None and attempt.kept_log.is_over
    # Lines of the worker are about the attempt, not by it.
    return not is_over or record.name == "worker"


_handler = AttemptLogHandler()
_workers = 0


@contextmanager
def keeping_logs() -> Iterator[None]:
    """Keep what handlers log in this process, and in the tasks they start on this event loop, during the block."""
    global _workers
    _workers += 1
    root = logging.getLogger()
    others = [handler for handler in root.handlers if handler is not _handler]
    for handler in others:
        handler.addFilter(_is_written)
    root.addHandler(_handler)
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    if _workers == 1:
        loop.set_task_factory(_pinning(factory))
    try:
        yield
    finally:
        _workers -= 1
        if _workers == 0:
            root.removeHandler(_handler)
            for handler in others:
                handler.removeFilter(_is_written)
            loop.set_task_factory(factory)


def _pinning(factory: Any) -> Any:
    """A task factory that lets the tasks of a handler lead to its attempt for good."""

    def create(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        find = _find.get(None)
        if isinstance(find, OfSlot) and options.get("context") is None and (attempt := find()) is not None:
            options["context"] = pinned(attempt)
        return asyncio.Task(coro, loop=loop, **options) if factory is None else factory(loop, coro, **options)

    return create


def note_log(attempt: AttemptContext) -> None:
    """Put what was logged by now among the notes of the attempt, without its secrets."""
    log = attempt.kept_log
    if log is not None:
        attempt.kept_log = None
        log.keep_waiting()
        stream = Stream(log.capture.head, log.capture.tail, log.capture.total)
        attempt.notes.detail[LOG_TAIL] = stored_text_of(stream, attempt.redactor)
