"""Calls a step's function: once, again after a failure, and within its timeout."""

import asyncio
import contextlib
import contextvars
import functools
import inspect
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Never, TypeAlias

from pydantic import ValidationError

from atlas.db.pg_json import stored_json
from atlas.engine.jobs.attempts.attempt_commit import CommitCall
from atlas.engine.jobs.backoff import RetryPolicy, jittered
from atlas.engine.jobs.handlers.around_job import within_hooks
from atlas.engine.jobs.new_jobs.refusals import is_lost_response
from atlas.engine.jobs.start_right import NotStarted, boot_seconds
from atlas.engine.jobs.verdicts import PermanentError, RetryAfter, Snooze, describe
from atlas.engine.workflows.errors import RunLost, StepFailed, error_json
from atlas.engine.workflows.steps.history import StepCheckpoint, Wait
from atlas.engine.workflows.steps.recorder import Recorder, StepPosition
from atlas.engine.workflows.steps.step_values import StepFunction, arguments_text, step_function
from atlas.errors import LeaseLost
from atlas.threads import awaitable
from atlas.tracing import may_trace, span

# Made as they are needed; those that a step hangs in are missing until it ends.
THREADS = 256
# Whether plain functions run immediately instead; a simulation has no threads.
runs_inline: contextvars.ContextVar[bool] = contextvars.ContextVar("runs_inline", default=False)


# The call that records a result, as the last statement of the transaction that the function ran in.
LastCall: TypeAlias = Callable[[Any], CommitCall]
InTransaction: TypeAlias = Callable[[LastCall], Callable[..., Any]]


@dataclass(slots=True)
class StepCall:
    """A function, its arguments, its retries and its timeout."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    retries: int
    policy: RetryPolicy
    timeout: float | None
    # Puts the function into a transaction on the application's database, whose commit records it.
    within: InTransaction | None = None


class StepTimeout(Exception):
    """The step's function did not end within its timeout."""


async def perform(recorder: Recorder, step: StepPosition, call: StepCall) -> Any:
    """Return what is recorded, or call the function and write its outcome before returning it."""
    function = step_function(call.function)
    recorded = step.recorded
    if recorded is not None:
        if recorded.status == "succeeded":
            return _replayed(step, function, recorded.output)
        if recorded.status == "failed":
            raise recorder.failure(step)
        if not recorded.due:
            recorder.block(step)
        if recorder.history.failure is not None and step.branch is not recorder.undoing:
            not_retried = StepFailed(step.name, "It was not tried again: the run is undone.", kind="GivenUp")
            await recorder.fail(step, not_retried, attempts=recorded.attempts)
    attempt = 1 if recorded is None else recorded.attempts + 1
    start_right = recorder.start_right
    if start_right is not None and boot_seconds() >= start_right.until:
        await recorder.wait_to_start(step, start_right)
    since = time.monotonic()
    if call.within is not None:
        return await _perform_in_transaction(recorder, step, call, attempt, since)
    try:
        if call.timeout is None and function.is_async and not may_trace():
            result = await call.function(*call.arguments)
        else:
            with span(f"step {step.name}"):
                result = await _call(recorder, function, call)
        text = function.dump(result)
        value = _read_back(function, text)
    except NotStarted:
        recorder.leave(step.branch)
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        await _raised(recorder, step, call, attempt, since, error)
    await recorder.record(
        step, "succeeded", attempts=attempt, since=since, input=arguments_text(call.arguments), output=text
    )
    return value


async def _perform_in_transaction(
    recorder: Recorder, step: StepPosition, call: StepCall, attempt: int, since: float
) -> Any:
    """Call the function in a transaction whose last statement writes its result, fenced as every record is."""
    known = step_function(call.function)
    checkpoint: StepCheckpoint | None = None
    value: Any = None
    is_over = False

    def last_call(result: Any) -> CommitCall:
        nonlocal checkpoint, value
        if is_over or recorder.step_commit is None:
            raise PermanentError("The step has ended." if is_over else "run.transaction takes a run of a worker.")
        text = known.dump(result)
        value = _read_back(known, text)
        input = arguments_text(call.arguments)
        checkpoint = recorder.checkpoint(step, "succeeded", attempts=attempt, since=since, input=input, output=text)
        return recorder.step_commit.call(checkpoint)

    try:
        assert call.within is not None
        with span(f"step {step.name}"):
            await _call(recorder, known, replace(call, function=call.within(last_call)))
    except NotStarted:
        recorder.leave(step.branch)
    except LeaseLost as error:
        raise RunLost from error
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if checkpoint is not None and (isinstance(error, StepTimeout) or is_lost_response(error)):
            # It has committed or not: the record says which when the run continues.
            recorder.replay_again(step)
        is_over = True
        await _raised(recorder, step, call, attempt, since, error)
    finally:
        # A thread that goes on commits nothing.
        is_over = True
    assert checkpoint is not None
    recorder.committed(checkpoint)
    return value


async def _call(recorder: Recorder, function: StepFunction, call: StepCall) -> Any:
    try:
        async with asyncio.timeout(call.timeout if function.is_async else None) as limit:
            if function.is_async:
                return await call.function(*call.arguments)
            return await _call_in_thread(recorder, call, limit)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise StepTimeout(f"It did not end within {call.timeout:g} s.") from error


async def _call_in_thread(recorder: Recorder, call: StepCall, limit: asyncio.Timeout) -> Any:
    """Run a plain function in a thread. It cannot be stopped: if its step is canceled, the worker waits for it."""
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()

    def work() -> Any:
        if recorder.start_right is not None:
            recorder.start_right.check_in_thread()
        if call.timeout is not None:
            # Its timeout begins now: before, it waited for a thread.
            loop.call_soon_threadsafe(_begin, limit, call.timeout)
        return context.run(awaitable(within_hooks(call.function)), *call.arguments)

    if runs_inline.get():
        result = work()
    else:
        thread = _threads().submit(work)
        try:
            result = await asyncio.wrap_future(thread)
        except asyncio.CancelledError:
            if thread.running():
                recorder.threads.append(asyncio.wrap_future(thread))
            raise
    return await result if inspect.isawaitable(result) else result


def _begin(limit: asyncio.Timeout, seconds: float) -> None:
    # Raises if the caller no longer waits for the step.
    with contextlib.suppress(RuntimeError):
        limit.reschedule(asyncio.get_running_loop().time() + seconds)


async def _raised(
    recorder: Recorder, step: StepPosition, call: StepCall, attempt: int, since: float, error: BaseException
) -> Never:
    """The function raised: try again later, or fail for good."""
    record = error_json(error)
    arguments = arguments_text(call.arguments)
    snoozed = isinstance(error, Snooze)
    if not snoozed and (isinstance(error, PermanentError) or attempt > call.retries):
        failed = StepFailed(step.name, record["message"], kind=record["type"])
        failed.__cause__ = error
        await recorder.fail(step, failed, attempts=attempt, since=since, input=arguments)
    wait = Wait(
        step.branch.path,
        step.position,
        step.name,
        step.kind,
        status="retrying",
        attempts=attempt - 1 if snoozed else attempt,
        wake_after=_delay(call.policy, attempt, error),
        input=arguments,
        error=stored_json(record),
    )
    await recorder.wait(step, wait)


def _delay(policy: RetryPolicy, attempt: int, error: BaseException) -> float:
    match error:
        case Snooze():
            return error.delay
        case RetryAfter():
            return jittered(error.delay, policy.jitter)
        case _:
            return policy.delay(attempt - 1)


def _read_back(function: StepFunction, text: str) -> Any:
    """The result as every replay will see it, checked before it is recorded."""
    try:
        return function.load(text)
    except ValidationError as error:
        raise PermanentError(
            f"The step's result cannot be read back as its annotated type: {describe(error)}",
            remedy="Return what survives JSON, or leave out the annotation.",
        ) from error


def _replayed(step: StepPosition, function: StepFunction, text: str | None) -> Any:
    try:
        return function.load(text)
    except ValidationError as error:
        raise PermanentError(
            f"What step {step.name!r} recorded does not fit its annotated type now: {describe(error)}",
            remedy="Run it with the code it began with, or fork it from that step.",
        ) from error


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="atlas-step")
