"""Triggers, which start work at a time or after an event, and recurring functions."""

from datetime import datetime
from typing import Annotated, ClassVar, TypeAlias
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, Document, EditableModel, known

# The fields that name what a trigger starts; each has exactly one of them.
TARGETS = ("definition_key", "job_type", "workflow")
FireResult: TypeAlias = Annotated[str, known("fired", "swallowed", "failed", "missed")]
RecurringOutcome: TypeAlias = Annotated[str, known("succeeded", "failed", "timeout", "stopped", "lost")]


class Trigger(EditableModel):
    """A trigger. `zone` is the clock that its schedule follows: its own, else its tenant's."""

    tagged: ClassVar = (
        *("id", "label", "trigger_type", "is_enabled", "event_name", "cron_expr", "timezone"),
        *("definition_key", "job_type", "workflow", "payload_template", "dedupe_window_seconds", "misfire"),
    )

    id: UUID
    tenant_id: UUID
    label: str
    trigger_type: Annotated[str, known("event", "schedule")]
    is_enabled: bool
    event_name: str | None
    cron_expr: str | None
    timezone: str | None
    definition_key: str | None
    job_type: str | None
    workflow: str | None
    payload_template: Document
    dedupe_window_seconds: int
    misfire: Annotated[str, known("skip", "latest", "all")]
    zone: str
    target_exists: bool = Field(description="False while its job type or workflow is not published: nothing runs it.")
    last_result: FireResult | None
    last_job_id: UUID | None
    last_fire_at: datetime | None
    next_fire_at: datetime | None
    last_error: Document | None
    created_by: str
    edited_by: str | None = Field(
        description="The last person who changed when it fires, or what it starts; null if no one did."
    )
    declared_by: str | None = Field(description="The module whose code declares it; null for a person's.")
    created_at: datetime
    updated_at: datetime

    @property
    def target(self) -> tuple[str, str]:
        """What it starts: the kind and the name."""
        return next((kind, name) for kind in TARGETS if (name := getattr(self, kind)) is not None)

    @property
    def arranged_by(self) -> str:
        """Who requests what it starts: the last person who changed when it fires, or what it starts."""
        return self.edited_by or self.created_by

    @property
    def first_due(self) -> datetime | None:
        """Its first open due time: its next, or, while its schedule cannot be computed, the one it stopped at."""
        if self.last_error is None or "open_since" not in self.last_error:
            return self.next_fire_at
        stopped = self.last_error["open_since"]
        return None if stopped is None else datetime.fromisoformat(stopped)


class Fired(ApiModel):
    """The job, or the intent and with it the run, that was started."""

    job_id: UUID


class Fire(ApiModel):
    """A recorded firing."""

    id: UUID
    trigger_id: UUID
    tenant_id: UUID
    due_at: datetime | None
    event_id: UUID | None
    fired_at: datetime
    result: FireResult
    job_id: UUID | None
    error: str | None
    created_by: str


class Occurrence(ApiModel):
    """A due time: in UTC, by the zone's clock, and how a clock change touches it."""

    utc: datetime
    local: str
    note: str


class RecurringFunction(ApiModel):
    """A recurring function, and how its last run ended."""

    id: str
    tenant_id: UUID
    start_at: datetime
    repeat_seconds: float
    timeout_seconds: float | None
    next_run_at: datetime
    run_count: int
    worker_id: str | None
    last_started_at: datetime | None
    last_finished_at: datetime | None
    last_outcome: RecurringOutcome | None
    last_error: str | None


class RecurringRun(ApiModel):
    """A run of a recurring function."""

    id: UUID
    tenant_id: UUID
    recurring_id: str
    due_at: datetime
    attempt_no: int
    worker_id: str
    started_at: datetime
    finished_at: datetime | None
    duration_ms: int | None
    outcome: RecurringOutcome | None
    error: str | None
