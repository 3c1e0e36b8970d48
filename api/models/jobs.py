"""Jobs as they are asked for and as they are shown."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AliasChoices, ConfigDict, Field, StringConstraints, model_validator

from atlas.api.models.common import Body, Document, Id, Moment, Number, Shown, Whole
from atlas.engine.jobs import Explanation, JobRow

JobStatus = Literal["queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled"]
JobSource = Literal["manual", "event", "schedule", "workflow", "system"]
JobTypeName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
MOST_JOBS = 1000
LONGEST_DELAY = 10 * 366 * 86_400


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


class NewJobBody(Body):
    """A job to be. Name its `job_type`, or the `definition_key` of an allow-listed command."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["job_type"]}, {"required": ["definition_key"]}],
            "examples": [
                {
                    "job_type": "EMAIL_SEND",
                    "payload": {"to": "ann@example.com", "subject": "Hello", "text": "It works."},
                    "priority": 5,
                    "dedupe_key": "welcome:ann",
                },
                {"definition_key": "backup.run", "payload": {"database": "crm"}},
            ],
        }
    )

    # Exactly one of the two is given; the other one stays empty, which cannot be sent.
    job_type: JobTypeName = Field(default="", json_schema_extra=_without_default)
    definition_key: JobTypeName = Field(default="", json_schema_extra=_without_default)
    payload: Document = Field(default_factory=dict, description="The job's input: a JSON object under its own names.")
    priority: Annotated[Whole, Field(ge=-1_000_000, le=1_000_000)] = Field(default=0, description="Higher goes first.")
    scheduled_for: Moment | None = Field(default=None, description="Not before this moment; now if left out.")
    delay_seconds: Annotated[Number, Field(ge=0, le=LONGEST_DELAY)] | None = Field(
        default=None, description="Not before so long from now, by the database's clock; instead of `scheduled_for`."
    )
    dedupe_key: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = Field(
        default=None, description="An active job under the same key is the answer instead of a new one."
    )
    max_retries: Annotated[Whole, Field(ge=0, le=1000)] | None = None
    correlation_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="Carried to the handler's log lines; the header X-Correlation-Id if left out."
    )
    timeout_seconds: Annotated[Whole, Field(ge=1, le=7 * 86_400)] | None = None
    host_id: Id | None = Field(default=None, description="Only this host may run it.")
    server_instance_id: Id | None = Field(default=None, description="The server it is about; its host runs it.")

    @model_validator(mode="after")
    def _names_one_kind(self) -> "NewJobBody":
        if bool(self.job_type) == bool(self.definition_key):
            raise ValueError("name either job_type or definition_key")
        if self.scheduled_for is not None and self.delay_seconds is not None:
            raise ValueError("give either scheduled_for or delay_seconds")
        return self

    @property
    def kind(self) -> str:
        """The job type, which is the key of its definition where it has one."""
        return self.job_type or self.definition_key


class EnqueuedJob(Shown):
    """What came of a request for a job."""

    id: UUID
    tenant_id: UUID
    status: str
    job_type: str
    definition_key: str | None = None
    queued_at: datetime
    deduplicated: bool = Field(description="True if an active job held the same dedupe key; the id is that job's.")


class JobShown(Shown):
    """A job. Secret fields of its payload are shown as fingerprints."""

    id: UUID
    tenant_id: UUID
    status: JobStatus = Field(validation_alias=AliasChoices("shown_status", "status"))
    job_type: str
    definition_id: UUID | None
    definition_key: str | None
    priority: int
    payload: Document
    output: Document
    error: Document
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
    progress: Document | None

    @classmethod
    def of(cls, job: JobRow) -> "JobShown":
        """A row of the queue as the API names things."""
        values: dict[str, Any] = {name: getattr(job, name) for name in _SAME_NAMES}
        return cls.model_construct(
            **values,
            status=job.shown_status,
            definition_key=job.job_type if job.definition_id is not None else None,
            payload=job.input,
            scheduled_for=job.next_retry_at,
            queued_at=job.created_at,
        )


_SAME_NAMES = tuple(name for name in JobShown.model_fields if name != "status" and name in JobRow.__slots__)


class AttemptShown(Shown):
    """One attempt at a job."""

    job_run_id: str
    attempt_no: int
    worker_id: str | None
    host_id: UUID | None
    pid: int | None
    status: Literal["running", "succeeded", "failed", "timeout", "canceled", "lost"]
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    exit_code: int | None
    stdout_tail: str | None
    stderr_tail: str | None
    error_text: str | None
    outcome: str | None
    result: Document
    log_ref: str | None


class ExplanationShown(Shown):
    """Why a job is where it is: a word for programs, a sentence for people."""

    job_id: UUID
    status: str
    reason: str
    sentence: str

    @classmethod
    def of(cls, told: Explanation) -> "ExplanationShown":
        return cls(job_id=told.job_id, status=told.status, reason=told.reason, sentence=told.sentence)


class Canceled(Shown):
    """`canceled` at once, or `requested` of the worker that runs it."""

    id: UUID
    verdict: Literal["canceled", "requested"]


class Retried(Shown):
    id: UUID
    verdict: Literal["retried"] = "retried"


class RetryDeadLetters(Body):
    """Which dead letters to queue again, oldest first."""

    job_type: JobTypeName | None = None
    limit: Annotated[Whole, Field(ge=1, le=1000)] = 1000


class RetriedMany(Shown):
    """What became of each dead letter that was found."""

    retried: int
    verdicts: dict[str, str]


class SummaryShown(Shown):
    """How much there is of everything. Counts are exact up to 2,000; those in `estimated` are estimates."""

    counts: dict[str, int]
    estimated: list[str]
    running: int
    oldest_queued_seconds: float | None
    per_minute: dict[str, float] = Field(description="Events of the last minutes, by kind, for each minute.")


class Ticked(Shown):
    """What one tick did."""

    model_config = ConfigDict(extra="allow", frozen=True)

    ok: Literal[True] = True
