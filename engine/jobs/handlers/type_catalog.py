"""The published job types: workers write at start what their decorators say, and every process can read it."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

import orjson

from atlas.actors import system
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.jobs.handlers.types import DuplicateJobType, JobType, canonical
from atlas.engine.secrets.fields import secret_values, steps
from atlas.engine.templates import references
from atlas.errors import FieldError

KNOWN = statement("engine/jobs/handlers/sql/publish_known.sql")
NEW = statement("engine/jobs/handlers/sql/publish_new.sql")
PUBLISH = statement("engine/jobs/handlers/sql/publish_type.sql")
WORKER = system("worker")


async def publish_types(conn: Connection, job_types: Iterable[JobType]) -> None:
    """Publish the job types of this process: one statement where nothing changed, since a tick starts a worker too."""
    # What is published of a command is its definition.
    types = {
        job_type.key: job_type
        for job_type in sorted(job_types, key=lambda job_type: job_type.key)
        if not job_type.is_command
    }
    for key in await _publish_known(conn, types.values()):
        del types[key]
    for key in await _publish_new(conn, types.values()):
        del types[key]
    for job_type in types.values():
        await _publish_changed(conn, job_type)


async def _publish_known(conn: Connection, job_types: Iterable[JobType]) -> list[str]:
    """Returns the keys of those that are published as they are."""
    return [row["key"] for row in await fetch(conn, KNOWN, types=_columns_json(job_types))]


async def _publish_new(conn: Connection, job_types: Collection[JobType]) -> list[str]:
    """Publish those that no one has published. Returns their keys."""
    if not job_types:
        return []
    async with conn.transaction():
        keys = {row["key"] for row in await fetch(conn, NEW, types=_columns_json(job_types))}
        for job_type in job_types:
            if job_type.key in keys:
                await record(conn, _event(job_type))
    return sorted(keys)


async def _publish_changed(conn: Connection, job_type: JobType) -> None:
    async with conn.transaction():
        values = await values_of(conn, "job_type", job_type.key)
        # Whether it differs from what was published; None if a definition has this key.
        is_new = await fetch_value(conn, PUBLISH, **_columns(job_type))
        if is_new:
            await record(conn, _event(job_type), before=values or None)
    if is_new is None:
        raise DuplicateJobType(
            f"The job type {job_type.key!r} has a handler here and a command definition in the database.",
            remedy="Give the handler another job type, or the definition another key.",
        )


def _event(job_type: JobType) -> Event:
    limits = {"concurrency": job_type.concurrency, "concurrency_key": job_type.concurrency_key, "rate": job_type.rate}
    return Event("JOB_TYPE_PUBLISHED", "job_type", job_type.key, WORKER, meta=limits)


def _columns(job_type: JobType) -> dict[str, Any]:
    return {
        "key": job_type.key,
        "description": job_type.description.split("\n\n")[0],
        "input_schema": orjson.dumps(job_type.input_schema).decode(),
        "max_retries": job_type.max_retries,
        "timeout_seconds": None if job_type.timeout is None else max(1, round(job_type.timeout)),
        "retry_policy": orjson.dumps(job_type.policy.as_json()).decode(),
        "concurrency": job_type.concurrency,
        "concurrency_key": job_type.concurrency_key,
        "rate": job_type.rate,
        "burst": job_type.burst,
        "audit_content": job_type.audit_content,
    }


def _columns_json(job_types: Iterable[JobType]) -> str:
    rows = [_columns(job_type) for job_type in job_types]
    for row in rows:
        row |= {name: orjson.Fragment(row[name]) for name in ("input_schema", "retry_policy")}
    return orjson.dumps(rows).decode()


async def kept_secrets(conn: Connection, job_type: str, template: Mapping[str, Any], *, path: str) -> list[FieldError]:
    """Find where a stored payload, of which a job is made later, would hold a secret in clear."""
    published = await prisma_on(conn).jobtype.find_unique({"key": canonical(job_type)})
    schema = {} if published is None else cast("dict[str, Any]", published.inputSchema)
    marked = secret_values(schema, template)
    reason = f"is a secret of {canonical(job_type)}, and would be kept here in clear"
    return [FieldError(".".join([path, *steps(at)]), reason) for at, value in marked if not references(value)]
