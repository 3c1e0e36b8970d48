"""Which jobs a request is about: the filters of a list in its query, and the same in a body."""

from dataclasses import asdict
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import Field, StringConstraints

from atlas.api.models.common import ID_PREFIX, Body, Id, Name, Timestamp
from atlas.api.models.jobs import JobSource
from atlas.api.request_context import Calling
from atlas.client.models.jobs import JobFilterShown, JobStatus
from atlas.engine.jobs.job_list import JobFilter

STATUS_RULE = (
    "A job has one of these at a time. `queued` is due; `waiting` is queued and due later: delayed jobs and retries. "
    "`dead_letter` failed after its last retry or was lost three times, and `failed` by a permanent error."
)


class JobFilterBody(Body):
    """Which jobs are meant: every field that is sent must match, as in the query of their list."""

    status: Annotated[list[JobStatus], Field(min_length=1, max_length=7)] | None = None
    job_type: Name | None = None
    source: JobSource | None = None
    correlation_id: Name | None = None
    id_prefix: Annotated[str, StringConstraints(pattern=ID_PREFIX)] | None = None
    worker_id: Name | None = None
    host_id: Id | None = None
    parent_run_id: Id | None = None
    error_type: Name | None = None
    error_text: Name | None = None
    error_pattern: Annotated[str, StringConstraints(min_length=1, max_length=300)] | None = None
    created_after: Timestamp | None = None
    created_before: Timestamp | None = None
    finished_after: Timestamp | None = None
    finished_before: Timestamp | None = None
    group_id: Id | None = None

    def wanted(self, tenant_id: UUID | None) -> JobFilter:
        """The filter of the engine's verbs."""
        given = self.given()
        statuses = given.pop("status", None)
        return JobFilter(tenant_id, None if statuses is None else tuple(statuses), **given)


def filter_shown(wanted: JobFilter) -> JobFilterShown:
    """A filter as a response shows it."""
    return JobFilterShown.model_validate({**asdict(wanted), "status": wanted.statuses})


async def wanted_jobs(
    call: Calling,
    status: Annotated[list[JobStatus] | None, Query(max_length=7, description=STATUS_RULE)] = None,
    job_type: Annotated[str | None, Query(max_length=200)] = None,
    source: JobSource | None = None,
    correlation_id: Annotated[str | None, Query(max_length=200)] = None,
    id_prefix: Annotated[str | None, Query(pattern=ID_PREFIX)] = None,
    worker_id: Annotated[str | None, Query(max_length=200)] = None,
    host_id: Annotated[Id | None, Query(description="Only jobs for this host.")] = None,
    parent_run_id: Annotated[Id | None, Query(description="Only what this run started.")] = None,
    error_type: Annotated[str | None, Query(max_length=200)] = None,
    error_text: Annotated[str | None, Query(max_length=200)] = None,
    error_pattern: Annotated[str | None, Query(max_length=300)] = None,
    created_after: Timestamp | None = None,
    created_before: Timestamp | None = None,
    finished_after: Timestamp | None = None,
    finished_before: Timestamp | None = None,
    group_id: Annotated[Id | None, Query(description="Only the jobs of this group.")] = None,
) -> JobFilter:
    """The jobs that the query of a list asks for."""
    return JobFilter(
        call.tenant_id,
        None if status is None else tuple(status),
        job_type,
        source,
        correlation_id,
        created_after,
        created_before,
        finished_after,
        finished_before,
        worker_id,
        host_id,
        parent_run_id,
        error_type,
        error_text,
        error_pattern,
        id_prefix,
        group_id,
    )
