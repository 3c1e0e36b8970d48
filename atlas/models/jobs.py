"""Jobs: what to enqueue, and what the API says of them."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from atlas.models.base import ApiModel, Document, known

JobStatus: TypeAlias = Literal["queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled"]
JobSource: TypeAlias = Annotated[str, known("manual", "event", "schedule", "workflow", "system")]
AttemptStatus: TypeAlias = Annotated[str, known("running", "succeeded", "failed", "timeout", "canceled", "lost")]
AttemptOutcome: TypeAlias = Annotated[str, known("unknown", "snoozed", "released")]
KnownJobStatus: TypeAlias = Annotated[str, known(*get_args(JobStatus))]
BulkVerb = Literal["retry", "cancel", "delete", "discard"]
KnownBulkVerb: TypeAlias = Annotated[str, known(*get_args(BulkVerb))]

ENDED: frozenset[JobStatus] = frozenset({"succeeded", "failed", "dead_letter", "canceled"})


class JobRequest(BaseModel):
    """A job to enqueue. Name its `job_type`, or the `definition_key` of an allow-listed command."""

    # NaN and infinity are sent as they are, so that the API refuses them instead of storing something else.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    job_type: str | None = None
    definition_key: str | None = None
    # The API calls it `payload`.
    input: dict[str, Any] = Field(default_factory=dict, serialization_alias="payload")
    priority: int | None = None
    scheduled_for: datetime | None = None
    delay_seconds: float | None = None
    dedupe_key: str | None = None
    max_retries: int | None = None
    correlation_id: str | None = None
    timeout_seconds: int | None = None
    # It is canceled as expired unless it has started by then, or within this many seconds of its enqueue.
    start_by: datetime | None = None
    expires_in_seconds: float | None = None
    # Its attempts and its retries end by then.
    finish_by: datetime | None = None
    host_id: UUID | None = None
    server_instance_id: UUID | None = None
    # Accept a job type or workflow that is not published yet.
    allow_unknown: bool = False


class EnqueuedJob(ApiModel):
    """The job that a request created, or the active job that held its dedupe key."""

    id: UUID
    tenant_id: UUID
    status: KnownJobStatus
    job_type: str
    definition_key: str | None = None
    queued_at: datetime
    deduplicated: bool = Field(description="True if an active job held the same dedupe key; the id is that job's.")


class ListedJob(ApiModel):
    """A job without its payload and output. Of its error it has the type, the beginning of the message, and a run's
    first step that was undone."""

    id: UUID
    tenant_id: UUID
    status: JobStatus
    job_type: str
    definition_id: UUID | None
    definition_key: str | None
    priority: int
    error: dict[str, Any]
    cost_cents: int
    retry_count: int
    max_retries: int
    attempt_count: int
    lost_count: int
    scheduled_for: datetime | None = Field(
        description="The time that it was enqueued for. Null if it was enqueued without one; retries do not change it."
    )
    next_retry_at: datetime | None = Field(
        description="When it is due: the time of its next retry, or of its first attempt. Null if it is due already, "
        "has finished, or waits without an end."
    )
    queued_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_expires_at: datetime | None
    dead_lettered_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_requested_by: str | None
    claimed_by: str | None
    dedupe_key: str | None
    correlation_id: str | None
    source: JobSource
    source_ref: str | None
    created_by: str | None
    timeout_seconds: int | None
    host_id: UUID | None
    server_instance_id: UUID | None
    parent_run_id: UUID | None
    progress: dict[str, Any] | None
    start_by: datetime | None = Field(
        description="The latest start of its next attempt; if it is still queued then, it is canceled as expired."
    )
    finish_by: datetime | None = Field(description="Its attempts and its retries end by then.")
    group_id: UUID | None

    @property
    def has_ended(self) -> bool:
        """True if it will not run again by itself."""
        return self.status in ENDED


class Job(ListedJob):
    """A job. Secret fields of its payload are shown as fingerprints."""

    # The API calls it `payload`.
    input: dict[str, Any] = Field(alias="payload")
    output: Any = Field(description="What the handler returned, as JSON; an empty object if it returned nothing.")


class Attempt(ApiModel):
    """One attempt at a job."""

    job_run_id: str
    attempt_no: int
    worker_id: str | None
    host_id: UUID | None
    pid: int | None
    status: AttemptStatus
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    exit_code: int | None
    stdout_tail: str | None
    stderr_tail: str | None
    log_tail: str | None
    error_text: str | None
    outcome: AttemptOutcome | None
    result: Any
    log_ref: str | None


class Canceled(ApiModel):
    """`canceled` immediately, or `requested` of the worker that runs it."""

    id: UUID
    verdict: Literal["canceled", "requested"]


class Retried(ApiModel):
    """A job that is queued again."""

    id: UUID
    verdict: Literal["retried"] = "retried"


class JobSummary(ApiModel):
    """Counts of jobs, exact but for those of the statuses in `estimated`."""

    counts: dict[str, int]
    estimated: list[str]
    running: int
    oldest_queued_seconds: float | None
    per_minute: dict[str, float] = Field(description="Events of the last minutes, by kind, for each minute.")


class Ticked(ApiModel):
    """What one tick did."""

    model_config = ConfigDict(extra="allow", frozen=True)

    ok: Literal[True] = True


class PublishedJobType(ApiModel):
    """A job type that a worker has published, or a command."""

    key: str
    description: str
    input_schema: Document
    max_retries: int
    timeout_seconds: int | None
    retry_policy: Document
    input_limit: int
    concurrency: int | None
    concurrency_key: str | None
    rate: str | None
    burst: int | None
    last_seen_at: datetime
    is_command: bool


class BulkFilter(ApiModel):
    """Which jobs a bulk action changes: every field that is not null must match, as in the query of their list."""

    status: list[JobStatus] | None = None
    job_type: str | None = None
    source: JobSource | None = None
    correlation_id: str | None = None
    id_prefix: str | None = None
    worker_id: str | None = None
    host_id: UUID | None = None
    parent_run_id: UUID | None = None
    error_type: str | None = None
    error_text: str | None = None
    error_pattern: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    group_id: UUID | None = None


class BulkAction(ApiModel):
    """An action on many jobs, and how far it is. `verdicts` counts what became of them."""

    id: UUID
    tenant_id: UUID | None
    action: KnownBulkVerb
    status: Annotated[str, known("running", "done", "canceled")]
    reason: str
    filter: BulkFilter | None
    # How many jobs are named by their ids or are in the set of a preview; None for a filter.
    total: int | None
    rate_per_second: float | None
    changed: int
    passed_over: int
    verdicts: dict[str, int]
    created_by: str
    canceled_by: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    # The set that it changes, and how many jobs matched when it began that were not in it.
    digest: str | None = None
    arrived: int | None = None

    @property
    def has_ended(self) -> bool:
        """True if it changes nothing more."""
        return self.status != "running"


class BulkActionPreview(ApiModel):
    """The jobs that an action would change: how many, and the digest by which the action names them."""

    digest: str
    action: KnownBulkVerb
    filter: BulkFilter | None
    count: int
    left_out: dict[str, int]
    # Of jobs that were named by their ids: those that would be left as they are, with the reason.
    refused: dict[UUID, str] = Field(default_factory=dict)
    complete: bool
    as_of: datetime


class JobGroup(ApiModel):
    """Jobs that were enqueued together."""

    id: UUID
    tenant_id: UUID
    name: str
    total: int
    counts: dict[str, int]
    ended_counts: dict[str, int] | None
    then_type: str | None
    then_job_id: UUID | None
    created_by: str
    created_at: datetime
    ended_at: datetime | None

    @property
    def has_ended(self) -> bool:
        """True once all of its jobs had ended."""
        return self.ended_at is not None


class TenantDeadLetters(ApiModel):
    """How many dead letters of a cause a tenant has."""

    tenant_id: UUID
    count: int


class DeadLetterGroup(ApiModel):
    """Dead letters of one type whose errors are alike. Its type, `error_type` and `error_pattern` filter their list."""

    job_type: str
    error_type: str | None
    error_pattern: str | None
    message: str | None
    count: int
    unknown_outcomes: int
    first_at: datetime
    last_at: datetime
    sample_id: UUID | None
    tenants: list[TenantDeadLetters] = Field(description="The three tenants that have most of them.")
    tenant_count: int = Field(description="How many tenants have some of them.")


class DeadLetterGroups(ApiModel):
    """Dead letters by cause, and how many there are in all."""

    items: list[DeadLetterGroup]
    count: int
    # For clients of earlier releases.
    examined: int
    complete: bool
