"""The published job types: workers write at start what their decorators say, and every process can read it."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import orjson

from atlas.actors import system
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.types import DuplicateJobType, JobType, canonical
from atlas.engine.secrets.fields import secret_values, steps
from atlas.engine.templates import references
from atlas.errors import FieldError

PUBLISH = statement("engine/jobs/sql/publish_type.sql")
WORKER = system("worker")


async def publish_types(conn: Connection, job_types: Iterable[JobType]) -> None:
    """Publish the job types of this process."""
    for one in sorted(job_types, key=lambda job_type: job_type.key):
        if one.is_command:
            continue  # Its definition is what is published.
        async with conn.transaction():
            values = await values_of(conn, "job_type", one.key)
            is_new = await _publish(conn, one)
            if is_new:
                limits = {"concurrency": one.concurrency, "concurrency_key": one.concurrency_key, "rate": one.rate}
                event = Event("JOB_TYPE_PUBLISHED", "job_type", one.key, WORKER, meta=limits)
                await record(conn, event, before=values or None)
        if is_new is None:
            raise DuplicateJobType(
                f"The job type {one.key!r} has a handler here and a command definition in the database.",
                remedy="Give the handler another job type, or the definition another key.",
            )


async def _publish(conn: Connection, job_type: JobType) -> bool | None:
    """Returns whether it differs from what was published; None if a definition has this key."""
    is_new: bool | None = await fetch_value(
        conn,
        PUBLISH,
        key=job_type.key,
        description=job_type.description.split("\n\n")[0],
        input_schema=orjson.dumps(job_type.input_schema).decode(),
        max_retries=job_type.max_retries,
        timeout_seconds=None if job_type.timeout is None else max(1, round(job_type.timeout)),
        retry_policy=orjson.dumps(job_type.policy.as_json()).decode(),
        concurrency=job_type.concurrency,
        concurrency_key=job_type.concurrency_key,
        rate=job_type.rate,
        burst=job_type.burst,
        audit_content=job_type.audit_content,
    )
    return is_new


async def kept_secrets(conn: Connection, job_type: str, template: Mapping[str, Any], *, path: str) -> list[FieldError]:
    """Find where a stored payload, of which a job is made later, would hold a secret in clear."""
    published = await prisma_on(conn).jobtype.find_unique({"key": canonical(job_type)})
    schema = {} if published is None else cast("dict[str, Any]", published.inputSchema)
    marked = secret_values(schema, template)
    reason = f"is a secret of {canonical(job_type)}, and would be kept here in clear"
    return [FieldError(".".join([path, *steps(at)]), reason) for at, value in marked if not references(value)]
