"""Enqueue over a database of Django, on psycopg 3, in the transaction of `transaction.atomic` if there is one.

`transaction` ends a job in a transaction of Django, `run_transaction` records a step of a run in one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, overload

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import atomic

from atlas.engine.jobs.attempts.attempt_commit import CommitCall
from atlas.engine.jobs.attempts.ending_transaction import ending, refuse_open
from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import JobFunction
from atlas.engine.jobs.new_jobs.enqueue_call import JobName, call_result, call_values
from atlas.engine.jobs.new_jobs.new_job import NewJobOptions
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.integrations.placeholders import call_text, commit_text

if TYPE_CHECKING:
    from atlas.engine.workflows.run_context import Run
    from atlas.engine.workflows.steps.step_options import StepOptions

Input = TypeVar("Input")
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


@overload
def enqueue(
    job: JobFunction[Any, Input, ..., Any], input: Input, *, using: str = ..., **options: Unpack[NewJobOptions]
) -> Enqueued: ...


@overload
def enqueue(job: str, input: Any = None, *, using: str = ..., **options: Unpack[NewJobOptions]) -> Enqueued: ...


def enqueue(
    job: JobName, input: Any = None, *, using: str = DEFAULT_DB_ALIAS, **options: Unpack[NewJobOptions]
) -> Enqueued:
    """Enqueue a job of a type, by its name or by its decorated function. Outside of `atomic` it exists immediately."""
    values = call_values(job, input, options)
    with refusals(), connections[using].cursor() as cursor:
        cursor.execute(call_text(), values)
        return call_result(cursor.fetchone())


@contextmanager
def transaction(ctx: JobContext, *, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Open the transaction that ends the job: what the block writes and the job's success are one commit."""
    refuse_open(connections[using].in_atomic_block)
    with ending(ctx) as last_call, atomic(using=using):
        yield
        _end(using, last_call())


async def run_transaction(
    run: "Run",
    name: str,
    function: Callable[[*Arguments], Result],
    *arguments: *Arguments,
    using: str = DEFAULT_DB_ALIAS,
    **options: "Unpack[StepOptions]",
) -> Result:
    """Call a plain function once within `atomic`, as a step: what it writes and the record of the step are one commit.

    It runs in a thread.
    """

    @contextmanager
    def opened() -> Iterator[tuple[tuple[Any, ...], Callable[[CommitCall], None]]]:
        with atomic(using=using):
            yield (), lambda call: _end(using, call)

    # A program that only enqueues does not load it.
    from atlas.engine.workflows.steps.step_transaction import in_transaction

    within = in_transaction(opened, function)
    result: Result = await run.transaction_of(name, within, function, arguments, **options)
    return result


def _end(using: str, call: CommitCall) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute(commit_text(), call.values())
