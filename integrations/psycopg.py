"""Enqueue over a connection of psycopg 3, in its transaction: psycopg begins one with the first statement.

`transaction` ends a job in a transaction of such a connection, `run_transaction` records a step of a run in one.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, overload

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

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
    conn: psycopg.Connection[Any],
    job: JobFunction[Any, Input, ..., Any],
    input: Input,
    **options: Unpack[NewJobOptions],
) -> Enqueued: ...


@overload
def enqueue(
    conn: psycopg.Connection[Any], job: str, input: Any = None, **options: Unpack[NewJobOptions]
) -> Enqueued: ...


def enqueue(
    conn: psycopg.Connection[Any], job: JobName, input: Any = None, **options: Unpack[NewJobOptions]
) -> Enqueued:
    """Enqueue a job of a type, by its name or by its decorated function. It exists once the transaction commits."""
    values = call_values(job, input, options)
    with refusals(), conn.cursor(row_factory=tuple_row) as cursor:
        return call_result(cursor.execute(call_text(), values).fetchall()[0])


@overload
async def enqueue_async(
    conn: psycopg.AsyncConnection[Any],
    job: JobFunction[Any, Input, ..., Any],
    input: Input,
    **options: Unpack[NewJobOptions],
) -> Enqueued: ...


@overload
async def enqueue_async(
    conn: psycopg.AsyncConnection[Any], job: str, input: Any = None, **options: Unpack[NewJobOptions]
) -> Enqueued: ...


async def enqueue_async(
    conn: psycopg.AsyncConnection[Any], job: JobName, input: Any = None, **options: Unpack[NewJobOptions]
) -> Enqueued:
    """The same over an async connection."""
    values = call_values(job, input, options)
    with refusals():
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(call_text(), values)
            return call_result((await cursor.fetchall())[0])


@contextmanager
def transaction(ctx: JobContext, conn: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Open the transaction that ends the job: what the block writes and the job's success are one commit."""
    refuse_open(conn.info.transaction_status != TransactionStatus.IDLE)
    with ending(ctx) as last_call, conn.transaction():
        yield conn
        _end(conn, last_call())


@asynccontextmanager
async def transaction_async(
    ctx: JobContext, conn: psycopg.AsyncConnection[Any]
) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """The same over an async connection."""
    refuse_open(conn.info.transaction_status != TransactionStatus.IDLE)
    with ending(ctx) as last_call:
        async with conn.transaction():
            yield conn
            await _end_async(conn, last_call())


async def run_transaction(
    run: "Run",
    name: str,
    connect: Callable[[], AbstractContextManager[psycopg.Connection[Any]]],
    function: Callable[[psycopg.Connection[Any], *Arguments], Result],
    *arguments: *Arguments,
    **options: "Unpack[StepOptions]",
) -> Result:
    """Call a plain function once in a transaction, as a step: what it writes and the record of the step are one commit.

    It runs in a thread and gets the connection first, from `connect`: a pool's `connection`, or `psycopg.connect`.
    """

    @contextmanager
    def opened() -> Iterator[tuple[tuple[Any, ...], Callable[[CommitCall], None]]]:
        with connect() as conn:
            refuse_open(conn.info.transaction_status != TransactionStatus.IDLE)
            with conn.transaction():
                yield (conn,), lambda call: _end(conn, call)

    # A program that only enqueues does not load it.
    from atlas.engine.workflows.steps.step_transaction import in_transaction

    within = in_transaction(opened, function)
    result: Result = await run.transaction_of(name, within, function, arguments, **options)
    return result


async def run_transaction_async(
    run: "Run",
    name: str,
    connect: Callable[
        [], AbstractAsyncContextManager[psycopg.AsyncConnection[Any]] | Awaitable[psycopg.AsyncConnection[Any]]
    ],
    function: Callable[[psycopg.AsyncConnection[Any], *Arguments], Awaitable[Result]],
    *arguments: *Arguments,
    **options: "Unpack[StepOptions]",
) -> Result:
    """The same for an async function and an async connection."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[tuple[Any, ...], Callable[[CommitCall], Awaitable[None]]]]:
        connecting = connect()
        async with await connecting if inspect.isawaitable(connecting) else connecting as conn:
            refuse_open(conn.info.transaction_status != TransactionStatus.IDLE)
            async with conn.transaction():
                yield (conn,), lambda call: _end_async(conn, call)

    from atlas.engine.workflows.steps.step_transaction import in_async_transaction

    within = in_async_transaction(opened, function)
    result: Result = await run.transaction_of(name, within, function, arguments, **options)
    return result


def _end(conn: psycopg.Connection[Any], call: CommitCall) -> None:
    conn.execute(commit_text(), call.values())


async def _end_async(conn: psycopg.AsyncConnection[Any], call: CommitCall) -> None:
    await conn.execute(commit_text(), call.values())
