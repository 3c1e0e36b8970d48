"""The published job types: workers write at start what their decorators say, and every process can read it."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import orjson

from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, statement
from atlas.engine.jobs.types import DuplicateJobType, JobType, canonical
from atlas.engine.secrets.fields import secret_values, steps
from atlas.engine.templates import references
from atlas.errors import FieldError

PUBLISH = statement("engine/jobs/sql/publish_type.sql")


async def publish_types(conn: Connection, job_types: Iterable[JobType]) -> None:
    """Publish the job types of this process."""
    for one in sorted(job_types, key=lambda job_type: job_type.key):
        if one.is_command:
            continue  # Its definition is what is published.
        written = await fetch(
            conn,
            PUBLISH,
            key=one.key,
            description=one.description.split("\n\n")[0],
            input_schema=orjson.dumps(one.input_schema).decode(),
            max_retries=one.max_retries,
            timeout_seconds=None if one.timeout is None else max(1, round(one.timeout)),
            retry_policy=orjson.dumps(one.policy.as_json()).decode(),
            concurrency=one.concurrency,
            concurrency_key=one.concurrency_key,
            rate=one.rate,
            burst=one.burst,
            audit_content=one.audit_content,
        )
        if not written:
            raise DuplicateJobType(
                f"The job type {one.key!r} has a handler here and a command definition in the database.",
                remedy="Give the handler another job type, or the definition another key.",
            )


async def kept_secrets(conn: Connection, job_type: str, template: Mapping[str, Any], *, path: str) -> list[FieldError]:
    """Find where a stored payload, of which a job is made later, would hold a secret in clear."""
    published = await prisma_on(conn).jobtype.find_unique({"key": canonical(job_type)})
    schema = {} if published is None else cast("dict[str, Any]", published.inputSchema)
    marked = secret_values(schema, template)
    reason = f"is a secret of {canonical(job_type)}, and would be kept here in clear"
    return [FieldError(".".join([path, *steps(at)]), reason) for at, value in marked if not references(value)]
