"""Enqueue over a database of Django, on psycopg 3, in the transaction of `transaction.atomic` if there is one."""

from typing import Any, TypeVar, Unpack, overload

from django.db import DEFAULT_DB_ALIAS, connections

from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.enqueue_call import JobName, NewJobOptions, call_result, call_values
from atlas.engine.jobs.refusals import refusals
from atlas.engine.jobs.typed_job import JobFunction
from atlas.integrations.placeholders import call_text

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
