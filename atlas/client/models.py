"""What is sent to the API and what it answers, typed. Names that a newer API adds are passed over."""

from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

JobStatus: TypeAlias = Literal["queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled"]

T = TypeVar("T")

ENDED: frozenset[JobStatus] = frozenset({"succeeded", "failed", "dead_letter", "canceled"})


class NewJob(BaseModel):
    """A job to be. Name its `job_type`, or the `definition_key` of an allow-listed command."""

    # What is no JSON is sent as it is, so that the API refuses it instead of storing something else.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    job_type: str | None = None
    definition_key: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict)
    priority: int | None = None
    scheduled_for: datetime | None = None
    delay_seconds: float | None = None
    dedupe_key: str | None = None
    max_retries: int | None = None
    correlation_id: str | None = None
    timeout_seconds: int | None = None
    host_id: UUID | None = None
    server_instance_id: UUID | None = None


class ApiModel(BaseModel):
    """Something that the API answers."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class EnqueuedJob(ApiModel):
    """What came of a request for a job. `deduplicated`: an active job held the same key, and the id is that job's."""

    id: UUID
    tenant_id: UUID
    status: str
    job_type: str
    definition_key: str | None = None
    queued_at: datetime
    deduplicated: bool


class Job(ApiModel):
    """A job. Secret fields of its payload are fingerprints."""

    id: UUID
    tenant_id: UUID
    status: JobStatus
    job_type: str
    definition_key: str | None
    definition_id: UUID | None = None
    priority: int
    payload: dict[str, Any]
    output: dict[str, Any]
    error: dict[str, Any]
    cost_cents: int
    retry_count: int
    max_retries: int
    attempt_count: int
    lost_count: int
    scheduled_for: datetime | None
    queued_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_expires_at: datetime | None = None
    dead_lettered_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_requested_by: str | None
    claimed_by: str | None
    dedupe_key: str | None
    correlation_id: str | None
    source: str
    source_ref: str | None
    created_by: str | None
    timeout_seconds: int | None
    host_id: UUID | None
    server_instance_id: UUID | None
    parent_run_id: UUID | None
    progress: dict[str, Any] | None

    @property
    def has_ended(self) -> bool:
        """True if nothing will happen to it by itself any more."""
        return self.status in ENDED


class JobFilter(BaseModel):
    """Which jobs: every field that is set must fit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: str | None = None
    job_type: str | None = None
    source: str | None = None
    correlation_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


class JobPage(ApiModel):
    """A part of a list, and where the next part begins."""

    items: list[Job]
    next_cursor: UUID | None


class Listed(ApiModel, Generic[T]):
    """A whole list."""

    items: list[T]


class Attempt(ApiModel):
    """One attempt at a job."""

    job_run_id: str
    attempt_no: int
    worker_id: str | None
    host_id: UUID | None
    pid: int | None
    status: str
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    exit_code: int | None
    stdout_tail: str | None
    stderr_tail: str | None
    error_text: str | None
    outcome: str | None
    result: dict[str, Any]
    log_ref: str | None


class Explanation(ApiModel):
    """Why a job is where it is: a word for programs, a sentence for people."""

    job_id: UUID
    status: str
    reason: str
    sentence: str


class Verdict(ApiModel):
    """What became of a job that was steered."""

    id: UUID
    verdict: Literal["canceled", "requested", "retried"]


class RetriedMany(ApiModel):
    """What became of each dead letter that was found, by its id."""

    retried: int
    verdicts: dict[UUID, str]


class Summary(ApiModel):
    """How much there is of everything. Counts of the statuses in `estimated` are estimates."""

    counts: dict[str, int]
    estimated: list[str]
    running: int
    oldest_queued_seconds: float | None
    per_minute: dict[str, float]


class Gate(ApiModel):
    """The switch that every start obeys, and its story."""

    online: bool
    engine_enabled: bool
    reason: str | None
    by: str | None
    since: datetime | None
    until: datetime | None


class Depth(ApiModel):
    """How many active jobs of a type are in a state, and how long the oldest has waited."""

    job_type: str
    status: Literal["queued", "waiting", "running"]
    count: int
    oldest_seconds: float | None


class Worker(ApiModel):
    """A worker process."""

    worker_id: str
    hostname: str
    version: str
    job_types: list[str]
    running_count: int
    started_at: datetime
    last_seen_at: datetime
    lease_expires_at: datetime
    dead_at: datetime | None
    is_alive: bool


class Engine(ApiModel):
    """Whether someone turns intents into runs, and how many wait for that."""

    last_tick_at: datetime | None
    silent_seconds: float | None
    waiting: int
    is_silent: bool


class Status(ApiModel):
    """The gate, the queue, the workers and the engine."""

    gate: Gate
    queue: list[Depth]
    workers: list[Worker]
    engine: Engine
