"""One call of the SQL function `atlas.enqueue`, which any driver can make in its own transaction.

The function admits the job: tenant, job type, schema, limits. Here an input becomes JSON, and is checked by the
handler's model where this process has it. `enqueue` makes the call over asyncpg, `atlas.integrations` over others.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, Unpack, get_type_hints

import orjson
from pydantic import BaseModel, TypeAdapter

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.enqueue import enqueue as insert
from atlas.engine.jobs.handlers.types import canonical, check_input, registered, secret_schema
from atlas.engine.jobs.local_wakeup import wake_local_workers
from atlas.engine.jobs.new_jobs.new_job import NewJob, NewJobOptions, input_text
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.errors import AtlasError, FieldError, InvalidInput, Refused, no_tenant
from atlas.tracing import current_traceparent

TENANT = statement("engine/jobs/new_jobs/sql/tenant_of_call.sql")

# A job type by its name, or the function that `@job` registered for it.
JobName: TypeAlias = str | Callable[..., Any]


# The options that a new job has under the same names, each passed to the function as a value of its type.
_OPTIONS = {name: kind for name, kind in get_type_hints(NewJobOptions).items() if name in NewJob.__slots__}
_ARGUMENTS = {
    bool: ":{name}::boolean",
    int: ":{name}::int",
    str: ":{name}::text",
    datetime: ":{name}::timestamptz",
    timedelta: "make_interval(secs => :{name}::float8)",
}
CALL = statement("engine/jobs/new_jobs/sql/enqueue_call.sql").of_columns(
    [f"{name} => {_ARGUMENTS[kind].format(name=name)}" for name, kind in _OPTIONS.items()]
)


async def enqueue(conn: Connection, job: JobName, input: Any = None, **options: Unpack[NewJobOptions]) -> Enqueued:
    """Enqueue a job over a connection of asyncpg, in its transaction if it has one.

    The login needs no right but to call `atlas.enqueue`. A job whose type has secret fields is made by several
    statements, and only over a connection of Atlas's own pool.
    """
    key = job_key(job)
    with refusals():
        if secret_schema(key) is not None:
            return await _enqueue_with_secrets(conn, key, input, options)
        result = call_result(await conn.fetchrow(CALL.sql, *call_values(key, input, options)))
    wake_local_workers(conn)
    return result


def call_values(job: JobName, input: Any, options: NewJobOptions) -> list[Any]:
    """The values of the call, in the order of its parameters; InvalidInput if the handler could not take the input."""
    key = job_key(job)
    if secret_schema(key) is not None:
        raise Refused(
            f"The input of {key} has secret fields, which one statement cannot store.",
            remedy="Enqueue it over the API, by the command line, or over a connection of Atlas's own pool.",
        )
    _check(options)
    timeout = options.get("timeout")
    return CALL.bind(
        {
            **{
                name: value.total_seconds() if isinstance(value := options.get(name), timedelta) else value
                for name in _OPTIONS
            },
            "tenant": str(options.get("tenant", "system")),
            "job_type": key,
            "input": _text_of(key, input),
            "priority": options.get("priority", 0),
            # A trace goes on with the job.
            "correlation_id": options.get("correlation_id") or current_traceparent(),
            "actor": options.get("actor"),
            "timeout_seconds": None if timeout is None else max(1, round(timeout.total_seconds())),
            "coalesced": options.get("coalesce", False),
            "allow_unknown": options.get("allow_unknown", False) or key in registered(),
        }
    )


def call_result(row: Sequence[Any]) -> Enqueued:
    """What the call returned."""
    return Enqueued(row[0], row[1])


def job_key(job: JobName) -> str:
    """The job type that is meant."""
    key = job if isinstance(job, str) else getattr(job, "job_type", None)
    if key is None:
        name = getattr(job, "__qualname__", repr(job))
        remedy = "Decorate it with @job, or name the job type."
        raise AtlasError(f"{name} is not the handler of a job type.", remedy=remedy)
    return canonical(key)


def plain_input(input: Any) -> Any:
    """An input as plain JSON: a model, a dataclass or a mapping; None is an empty object."""
    if input is None:
        return {}
    if isinstance(input, BaseModel):
        return input.model_dump(mode="json", by_alias=True)
    if isinstance(input, Mapping):
        return dict(input)
    return orjson.loads(TypeAdapter(type(input)).dump_json(input))


async def _enqueue_with_secrets(conn: Connection, key: str, input: Any, options: NewJobOptions) -> Enqueued:
    """The same by the statements that store secrets, which need rights to the tables."""
    _check(options)
    tenant, timeout = str(options.get("tenant", "system")), options.get("timeout")
    row = await fetch_row(conn, TENANT, tenant=tenant)
    if row is None:
        raise no_tenant(tenant)
    job = NewJob(
        key,
        orjson.loads(_text_of(key, input)),
        row["id"],
        timeout_seconds=None if timeout is None else max(1, round(timeout.total_seconds())),
        **{name: value for name, value in options.items() if name in NewJob.__slots__},  # type: ignore[arg-type]
    )
    actor = Actor("user", options.get("actor", row["login"]))
    return await insert(conn, job, actor=actor, coalesce=options.get("coalesce", False))


def _check(options: NewJobOptions) -> None:
    wrong = [FieldError(name, "is unknown") for name in options if name not in NewJobOptions.__annotations__]
    times = [(name, value) for name, value in options.items() if isinstance(value, datetime)]
    wrong += [FieldError(name, "has no time zone") for name, time in times if time.tzinfo is None]
    if wrong:
        raise InvalidInput("The call", wrong)


def _text_of(key: str, input: Any) -> str:
    """The input as JSON text, checked by the model of the handler where this process has it."""
    text = input_text(key, plain_input(input))
    check_input(key, text)
    return text
