"""Job types made known to everyone: workers write at start what their decorators say."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.jobs.types import DuplicateJobType, JobType, canonical
from atlas.engine.schemas import require_fit
from atlas.engine.secrets.fields import secret_places, steps
from atlas.engine.templates import references
from atlas.errors import FieldError

PUBLISH = statement("engine/jobs/sql/publish_type.sql")
SCHEMA = statement("engine/jobs/sql/type_schema.sql")


async def publish_types(conn: Connection, job_types: Iterable[JobType]) -> None:
    """Write what this process knows about its job types."""
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
        )
        if not written:
            raise DuplicateJobType(
                f"The job type {one.key!r} has a handler here and a command definition in the database.",
                remedy="Give the handler another job type, or the definition another key.",
            )


async def kept_secrets(conn: Connection, job_type: str, template: Mapping[str, Any], *, path: str) -> list[FieldError]:
    """Where a payload that is kept until its job is made would hold a secret of the job's type for all to read."""
    text = await fetch_value(conn, SCHEMA, key=canonical(job_type))
    marked = secret_places({} if text is None else orjson.loads(text), template)
    reason = f"is a secret of {canonical(job_type)}, and would be kept here in clear"
    return [FieldError(".".join([path, *steps(place)]), reason) for place, value in marked if not references(value)]


async def check_published(conn: Connection, job_type: str, input: Mapping[str, Any]) -> None:
    """Check an input against the schema that a worker published, for those who do not know the type's model."""
    text = await fetch_value(conn, SCHEMA, key=canonical(job_type))
    require_fit({} if text is None else orjson.loads(text), input, what=f"The input of {canonical(job_type)}")
