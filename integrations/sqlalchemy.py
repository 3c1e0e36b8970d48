"""Enqueue in a session or connection of SQLAlchemy 2, over psycopg or asyncpg, in its transaction.

`transaction` ends a job in a transaction of such a session, `run_transaction` records a step of a run in one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, overload

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from atlas.engine.jobs.attempts.attempt_commit import COMMIT, CommitCall
from atlas.engine.jobs.attempts.ending_transaction import ending, refuse_open
from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import JobFunction
from atlas.engine.jobs.new_jobs.enqueue_call import CALL, JobName, call_result, call_values
from atlas.engine.jobs.new_jobs.new_job import NewJobOptions
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.errors import AtlasError
from atlas.integrations.placeholders import call_text, commit_text

DRIVERS = ("asyncpg", "psycopg")

if TYPE_CHECKING:
    from atlas.engine.workflows.run_context import Run
    from atlas.engine.workflows.steps.step_options import StepOptions

Input = TypeVar("Input")
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
# What a step runs in: a session or a connection.
SyncSession = TypeVar("SyncSession", Session, Connection)
Async = TypeVar("Async", AsyncSession, AsyncConnection)


@overload
def enqueue(
    session: Session | Connection,
    job: JobFunction[Any, Input, ..., Any],
    input: Input,
    **options: Unpack[NewJobOptions],
) -> Enqueued: ...


@overload
def enqueue(
    session: Session | Connection, job: str, input: Any = None, **options: Unpack[NewJobOptions]
) -> Enqueued: ...


def enqueue(
    session: Session | Connection, job: JobName, input: Any = None, **options: Unpack[NewJobOptions]
) -> Enqueued:
    """Enqueue a job of a type, by its name or by its decorated function. It exists once the session commits."""
    conn = session.connection() if isinstance(session, Session) else session
    return _call(conn, call_values(job, input, options))


@overload
async def enqueue_async(
    session: AsyncSession | AsyncConnection,
    job: JobFunction[Any, Input, ..., Any],
    input: Input,
    **options: Unpack[NewJobOptions],
) -> Enqueued: ...


@overload
async def enqueue_async(
    session: AsyncSession | AsyncConnection, job: str, input: Any = None, **options: Unpack[NewJobOptions]
) -> Enqueued: ...


async def enqueue_async(
    session: AsyncSession | AsyncConnection, job: JobName, input: Any = None, **options: Unpack[NewJobOptions]
) -> Enqueued:
    """The same in an async session or connection."""
    conn = await session.connection() if isinstance(session, AsyncSession) else session
    return await conn.run_sync(_call, call_values(job, input, options))


@contextmanager
def transaction(ctx: JobContext, session: Session | Connection) -> Iterator[Session | Connection]:
    """Open the transaction that ends the job: what the block writes and the job's success are one commit."""
    refuse_open(session.in_transaction())
    with ending(ctx) as last_call, session.begin():
        yield session
        _flush_and_end(session, last_call())


@asynccontextmanager
async def transaction_async(
    ctx: JobContext, session: AsyncSession | AsyncConnection
) -> AsyncIterator[AsyncSession | AsyncConnection]:
    """The same in an async session or connection."""
    refuse_open(session.in_transaction())
    with ending(ctx) as last_call:
        async with session.begin():
            yield session
            await session.run_sync(_flush_and_end, last_call())


async def run_transaction(
    run: "Run",
    name: str,
    make: Callable[[], AbstractContextManager[SyncSession]],
    function: Callable[[SyncSession, *Arguments], Result],
    *arguments: *Arguments,
    **options: "Unpack[StepOptions]",
) -> Result:
    """Call a plain function once in a transaction, as a step: what it writes and the record of the step are one commit.

    It runs in a thread and gets the session first, from `make`: a sessionmaker, or the engine's `connect`.
    """

    @contextmanager
    def opened() -> Iterator[tuple[tuple[Any, ...], Callable[[CommitCall], None]]]:
        with make() as session, session.begin():
            yield (session,), lambda call: _flush_and_end(session, call)

    # A program that only enqueues does not load it.
    from atlas.engine.workflows.steps.step_transaction import in_transaction

    within = in_transaction(opened, function)
    result: Result = await run.transaction_of(name, within, function, arguments, **options)
    return result


async def run_transaction_async(
    run: "Run",
    name: str,
    make: Callable[[], AbstractAsyncContextManager[Async]],
    function: Callable[[Async, *Arguments], Awaitable[Result]],
    *arguments: *Arguments,
    **options: "Unpack[StepOptions]",
) -> Result:
    """The same for an async function and an async session or connection."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[tuple[Any, ...], Callable[[CommitCall], Awaitable[None]]]]:
        async with make() as session, session.begin():
            yield (session,), lambda call: session.run_sync(_flush_and_end, call)

    from atlas.engine.workflows.steps.step_transaction import in_async_transaction

    within = in_async_transaction(opened, function)
    result: Result = await run.transaction_of(name, within, function, arguments, **options)
    return result


def _call(conn: Connection, values: list[Any]) -> Enqueued:
    with refusals():
        query = CALL.sql if _driver(conn) == "asyncpg" else call_text()
        return call_result(conn.exec_driver_sql(query, tuple(values)).one())


def _flush_and_end(session: Session | Connection, call: CommitCall) -> None:
    if isinstance(session, Session):
        session.flush()
    conn = session.connection() if isinstance(session, Session) else session
    conn.exec_driver_sql(COMMIT.sql if _driver(conn) == "asyncpg" else commit_text(), tuple(call.values()))


def _driver(conn: Connection) -> str:
    driver: str = conn.dialect.driver
    if driver.removesuffix("_async") not in DRIVERS:
        raise AtlasError(
            f"The session uses the driver {driver}.",
            remedy="Use a URL that begins with postgresql+psycopg:// or postgresql+asyncpg://.",
        )
    return driver
