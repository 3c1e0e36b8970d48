"""Placement: which host runs a job, by the host it names or by the server instance it is about."""

from dataclasses import replace
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.jobs.backoff import AGENT
from atlas.engine.jobs.new_jobs.new_job import SERVER_TYPES, NewJob
from atlas.errors import FieldError, InvalidInput
from atlas.ids import as_id

PLACEMENT = statement("engine/jobs/new_jobs/sql/placement.sql")


async def place(conn: Connection, job: NewJob) -> NewJob:
    """Return the job with its host and server instance resolved. Both must belong to the job's tenant.

    A job whose type publishes no number of retries gets the number that agents use.
    """
    instance_id = _instance_of(job)
    if job.host_id is None and instance_id is None:
        return job
    row = await fetch_row(
        conn,
        PLACEMENT,
        job_type=job.job_type,
        tenant_id=job.tenant_id,
        host_id=job.host_id,
        instance_id=instance_id,
    )
    assert row is not None
    if instance_id is not None and row["instance_host"] is None:
        raise _invalid("server_instance_id", f"there is no server instance {instance_id}")
    if row["host"] is None:
        raise _invalid("host_id", f"there is no host {job.host_id}")
    if instance_id is not None and row["instance_host"] != row["host"]:
        raise _invalid("host_id", "is not the host of the server instance")
    if not row["is_active"]:
        raise _invalid("host_id", f"host {row['host']} is not active")
    default_retries = None if row["known_type"] else AGENT.max_retries
    retries = default_retries if job.max_retries is None else job.max_retries
    return replace(job, host_id=row["host"], server_instance_id=instance_id, max_retries=retries)


def _instance_of(job: NewJob) -> UUID | None:
    """The server instance that the job or, for a type of servers, its input names."""
    if job.job_type not in SERVER_TYPES:
        return job.server_instance_id
    named = job.input.get("serverInstanceId")
    if named is not None and job.server_instance_id not in (None, as_id(str(named))):
        raise _invalid("server_instance_id", "is not the server instance that the input names as serverInstanceId")
    instance_id = job.server_instance_id or as_id(str(named))
    if instance_id is None:
        raise _invalid("server_instance_id", f"is needed by {job.job_type}")
    return instance_id


def _invalid(field: str, reason: str) -> InvalidInput:
    return InvalidInput("The job", [FieldError(field, reason)])
