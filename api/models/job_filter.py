"""Which jobs a request is about: the filters of a list in its query, and the same in a body."""

from typing import Annotated, Any, get_args
from uuid import UUID

from fastapi import Query
from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from atlas.api.models.common import ID_PREFIX, Flag, Id, Name, Timestamp
from atlas.api.models.jobs import JobSource, SynonymBody
from atlas.api.request_context import Calling
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.synonyms import STATUSES as SYNONYMS
from atlas.models.jobs import JobStatus

STATUS_RULE = (
    "A job has one of these at a time. `queued` is due; `waiting` is queued and due later: delayed jobs and retries. "
    "`dead_letter` failed after its last retry or was lost three times, and `failed` by a permanent error. "
    "Synonyms: `success` (succeeded), `cancelled` (canceled), `scheduled` (waiting), `pending` (queued and waiting)."
)
NAMES = (*get_args(JobStatus), *SYNONYMS)
SCHEDULED_RULE = "With it, `queued` includes `waiting`: jobs that are due later."


def _status(value: Any) -> Any:
    if value not in NAMES:
        raise ValueError(f"is not one of {', '.join(NAMES)}")
    return value


Status = Annotated[str, BeforeValidator(_status), WithJsonSchema({"type": "string", "enum": list(NAMES)})]


class JobFilterBody(SynonymBody):
    """Which jobs are meant: every field that is sent must match, as in the query of their list."""

    status: Annotated[list[Status], Field(min_length=1, max_length=len(NAMES))] | None = None
    include_scheduled: Flag | None = Field(default=None, description=SCHEDULED_RULE)
    job_type: Name | None = None
    source: JobSource | None = None
    correlation_id: Name | None = None
    id_prefix: Annotated[str, StringConstraints(pattern=ID_PREFIX)] | None = None
    worker_id: Name | None = None
    host_id: Id | None = None
    parent_run_id: Id | None = None
    error_type: Annotated[str, StringConstraints(max_length=200)] | None = None
    error_text: Name | None = None
    error_pattern: Annotated[str, StringConstraints(max_length=300)] | None = None
    created_after: Timestamp | None = None
    created_before: Timestamp | None = None
    finished_after: Timestamp | None = None
    finished_before: Timestamp | None = None
    group_id: Id | None = None

    def to_filter(self, tenant_id: UUID | None) -> JobFilter:
        """The filter of the engine's verbs."""
        filters = self.given()
        statuses = _statuses(filters.pop("status", None), include_scheduled=filters.pop("include_scheduled", False))
        return JobFilter(tenant_id, statuses, **filters)


def _statuses(names: list[str] | None, *, include_scheduled: bool | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return (*names, "waiting") if include_scheduled and "queued" in names else tuple(names)


async def read_job_filter(
    call: Calling,
    status: Annotated[list[Status] | None, Query(max_length=len(NAMES), description=STATUS_RULE)] = None,
    include_scheduled: Annotated[bool, Query(description=SCHEDULED_RULE)] = False,
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
        _statuses(status, include_scheduled=include_scheduled),
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
