"""Enqueue over a connection of psycopg 3, in its transaction: psycopg begins one with the first statement.

`transaction` ends a job in a transaction of such a connection.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar, Unpack, overload

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from atlas.engine.jobs.context import JobContext
from atlas.engine.jobs.ending_transaction import ending, refuse_open
from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.enqueue_call import JobName, call_result, call_values
from atlas.engine.jobs.new_job import NewJobOptions
from atlas.engine.jobs.refusals import refusals
from atlas.engine.jobs.typed_job import JobFunction
from atlas.integrations.placeholders import call_text, commit_text

Input = TypeVar("Input")


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
        conn.execute(commit_text(), last_call().values())


@asynccontextmanager
async def transaction_async(
    ctx: JobContext, conn: psycopg.AsyncConnection[Any]
) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """The same over an async connection."""
    refuse_open(conn.info.transaction_status != TransactionStatus.IDLE)
    with ending(ctx) as last_call:
        async with conn.transaction():
            yield conn
            await conn.execute(commit_text(), last_call().values())
