"""The first look at a tenant or the installation, and what happened to jobs by the minute, hour and day."""

from datetime import datetime
from typing import Annotated, TypeAlias
from uuid import UUID

from pydantic import Field

from atlas.models.audit import SealStatus
from atlas.models.base import ApiModel, known
from atlas.models.system import Gate

NeedKind: TypeAlias = Annotated[
    str,
    known(
        *("worker_lost", "host_silent", "intents_stuck", "engine_silent", "failures_rise", "no_worker"),
        *("dead_letters", "approvals", "schedules_late", "triggers_failing", "webhooks_disabled", "seal_lag"),
        "effects",
        *("audit_lost_end", "audit_damaged", "checkpoint_not_copied"),
    ),
]


class Flow(ApiModel):
    """What happened to jobs in some time, and quantiles of the times of those that ended in it, in seconds."""

    enqueued: int = Field(description="Jobs that were enqueued.")
    finished: int = Field(description="Jobs that ended, however they did.")
    succeeded: int = Field(description="Jobs that succeeded.")
    failed: int = Field(description="Jobs that failed by a permanent error.")
    dead_lettered: int = Field(description="Jobs that failed after their last retry, or were lost three times.")
    retried: int = Field(description="Attempts that failed and are tried again.")
    canceled: int = Field(description="Jobs that were canceled.")
    attempts: int = Field(description="Attempts that ended.")
    timed_out: int
    lost: int = Field(description="Attempts whose worker was lost; their jobs run again.")
    run_seconds: float = Field(description="How long the attempts ran, all together.")
    cost_cents: int = Field(description="What the jobs reported that they cost, in cents.")
    success_rate: float | None = Field(description="Of the jobs that were not canceled, the share that succeeded.")
    retry_rate: float | None = Field(description="Of the attempts, the share that failed and is tried again.")
    dead_letter_rate: float | None = Field(description="Of the jobs that were not canceled, the dead letters.")
    wait_p50: float | None = Field(description="Half of the jobs waited no longer to start after they were due.")
    wait_p95: float | None = Field(description="Of 100 jobs, 95 waited no longer.")
    run_p50: float | None = Field(description="Half of the attempts ran no longer.")
    run_p95: float | None = Field(description="Of 100 attempts, 95 ran no longer.")


class Point(Flow):
    """One minute, hour or day."""

    at: datetime = Field(description="Its beginning, in UTC.")
    is_complete: bool = Field(description="False while more of it may come: the newest steps are metered last.")


class TypeSeries(ApiModel):
    """The steps of a job type, or of all types together, and their sum."""

    job_type: str | None
    total: Flow
    points: list[Point] = Field(description="Every step, the oldest first; none if only sums were asked for.")


class Series(ApiModel):
    """What happened to jobs, step by step."""

    step: Annotated[str, known("minute", "hour", "day")]
    start: datetime
    end: datetime
    metered_until: datetime | None = Field(description="What was committed before this time is in it.")
    series: list[TypeSeries] = Field(description="One of all types together, or one of each.")


class TypeActivity(ApiModel):
    """A job type: what waits and runs now, and what happened in the last hour."""

    job_type: str
    queued: int = Field(description="Due jobs.")
    running: int
    is_partial: bool = Field(description="True where the queue is longer than was counted.")
    is_served: bool = Field(description="Whether a living worker serves the type; workers over HTTP are not known.")
    last_hour: Flow = Field(description="What happened in the last hour.")


class FailedJob(ApiModel):
    """A job that failed lately."""

    id: UUID
    tenant_id: UUID
    tenant: str | None = Field(description="The tenant's slug.")
    job_type: str
    is_dead_letter: bool = Field(description="Whether it failed after its last retry.")
    finished_at: datetime
    attempt_count: int
    error_type: str | None = Field(description="The kind of its last error.")
    error: str | None = Field(description="The message of its last error.")


class Need(ApiModel):
    """Something for a person to look at."""

    kind: NeedKind
    count: int
    message: str
    address: str = Field(description="The address of their list, below `/api/v1`.")
    subject: str | None
    since: datetime | None


class Overview(ApiModel):
    """What an operator or a tenant looks at first."""

    gate: Gate
    counts: dict[str, int]
    estimated: list[str]
    oldest_queued_seconds: float | None
    workers: int = Field(description="How many workers live; they serve all tenants.")
    seal: SealStatus | None = Field(
        description="How far the audit log is sealed; null for callers who may not read it."
    )
    types: list[TypeActivity] = Field(description="The busiest job types, ten at most.")
    failures: list[FailedJob] = Field(description="The failed jobs that ended last, ten at most.")
    needs: list[Need] = Field(description="What needs attention, the most urgent first.")


class TenantActivity(ApiModel):
    """A tenant beside others."""

    id: UUID
    slug: str
    name: str
    active: int = Field(description="Jobs that have not ended.")
    queued: int = Field(description="Due jobs.")
    waiting: int = Field(description="Jobs that are due later.")
    running: int
    dead_letters: int = Field(description="Jobs that failed after their last retry.")
    is_partial: bool = Field(description="True where the queue is so long that it is an estimate.")
    oldest_due_at: datetime | None = Field(description="Since when its oldest due job waits.")
    enqueued_per_minute: float = Field(description="Over the last five minutes.")
    finished_per_minute: float = Field(description="Over the last five minutes.")
    finished: int = Field(description="Jobs that ended in the last 15 minutes.")
    failed: int = Field(description="Those of them that failed.")
