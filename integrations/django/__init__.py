"""Enqueue over a database of Django, on psycopg 3, in the transaction of `transaction.atomic` if there is one.

`transaction` ends a job in a transaction of Django.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Unpack, overload

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import atomic

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
    job: JobFunction[Any, Input, ..., Any], input: Input, *, using: str = ..., **options: Unpack[NewJobOptions]
) -> Enqueued: ...


@overload
def enqueue(job: str, input: Any = None, *, using: str = ..., **options: Unpack[NewJobOptions]) -> Enqueued: ...


def enqueue(
    job: JobName, input: Any = None, *, using: str = DEFAULT_DB_ALIAS, **options: Unpack[NewJobOptions]
) -> Enqueued:
    """Enqueue a job of a type, by its name or by its decorated function. Outside of `atomic` it exists at once."""
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
        with connections[using].cursor() as cursor:
            cursor.execute(commit_text(), last_call().values())
