"""The state of the installation: the gate, the queue, the workers, findings and usage."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, EditableModel, known
from atlas.models.sentences import utc

FindingKind: TypeAlias = Annotated[
    str,
    known(
        *("worker_lost", "host_silent", "intents_stuck", "engine_silent", "failures_rise"),
        *("audit_lost_end", "audit_damaged", "checkpoint_not_copied", "horizon_held", "effects_differ"),
    ),
]

PauseKind: TypeAlias = Literal["tenant", "type", "definition", "workflow", "host", "trigger"]

# A program that has lived for so long has recovered from what ended it before.
STEADY_SECONDS = 30.0


class Gate(EditableModel):
    """Whether Atlas starts work, who decided that, when and why. Without a `since` it was never brought online."""

    tagged: ClassVar = (
        *("online", "reason", "by", "since", "until"),
        *("engine_enabled", "engine_reason", "engine_by", "engine_since"),
    )

    online: bool
    engine_enabled: bool
    reason: str | None
    by: str | None
    since: datetime | None
    until: datetime | None
    version: int = Field(description="Counts the switches.")
    workers: int | None = Field(
        default=None,
        description="In the response to the call that closed the gate: workers that could start something.",
    )
    confirmed: int | None = Field(
        default=None,
        description="How many of them confirmed that they start nothing. The right of the others to start has lapsed.",
    )
    engine_reason: str | None = Field(default=None, description="Why the engine was switched.")
    engine_by: str | None = Field(default=None, description="Who switched the engine; null if it was never switched.")
    engine_since: datetime | None = Field(default=None, description="When the engine was switched.")
    unblocked: list[str] = Field(
        default_factory=list,
        description="In the response to a switch: the database sessions that it ended. They held the gate's lock.",
    )

    @property
    def updated_at(self) -> datetime | None:
        """When it or the engine was switched last."""
        return max(filter(None, (self.since, self.engine_since)), default=None)

    @property
    def closed_because(self) -> str:
        """Why nothing starts, in one sentence."""
        return self.why_closed(utc)

    @property
    def engine_off_because(self) -> str:
        """Why no request for a workflow becomes a run, in one sentence."""
        return self.why_engine_off(utc)

    def why_closed(self, write_time: Callable[[datetime], str]) -> str:
        """Why nothing starts, in one sentence."""
        if self.since is None:
            return "Atlas was never brought online."
        message = _since_text("Atlas is offline", self.since, self.by, self.reason, write_time)
        return f"{message}. It comes back at {write_time(self.until)}." if self.until else f"{message}."

    def why_engine_off(self, write_time: Callable[[datetime], str]) -> str:
        """Why no request for a workflow becomes a run, in one sentence."""
        if self.engine_enabled or self.engine_since is None:
            return self.why_closed(write_time)
        message = _since_text("The engine is off", self.engine_since, self.engine_by, self.engine_reason, write_time)
        return f"{message}."


class Pause(ApiModel):
    """What is paused, by whom, since when, until when and why."""

    id: UUID
    kind: Annotated[str, known(*get_args(PauseKind))] = Field(description="What is paused.")
    target: str = Field(description="Its key, or the id of a tenant, host or trigger.")
    name: str | None = Field(description="What people call it.")
    tenant_id: UUID | None = Field(description="Whose it is; null where it holds for every tenant.")
    tenant: str | None = Field(description="The slug of that tenant.")
    reason: str | None
    by: str = Field(description="Who paused it.")
    since: datetime = Field(description="Since when it is paused.")
    until: datetime | None = Field(description="When it ends by itself; null for never.")
    version: int = Field(description="Counts the pauses. In quotes it is the `ETag` of this one.")
    workers: int | None = Field(
        default=None, description="In the response to the call that paused it: workers that could start something."
    )
    confirmed: int | None = Field(
        default=None,
        description="Number of workers that confirmed the pause. The start rights of the others have expired.",
    )

    @property
    def etag(self) -> str:
        """The entity tag of its state: a pause that is changed gets another version."""
        return f'"{self.version}"'

    @property
    def updated_at(self) -> None:
        """When it was changed is not kept."""

    @property
    def text(self) -> str:
        """The pause in one sentence."""
        return pause_text(self.kind, self.name or self.target, self.since, self.by, self.reason, self.until)


def pause_text(
    kind: str,
    name: str,
    since: datetime,
    by: str,
    reason: str | None,
    until: datetime | None,
    write_time: Callable[[datetime], str] = utc,
) -> str:
    """A pause in one sentence."""
    noun = {"type": "job type"}.get(kind, kind)
    text = _since_text(f"The {noun} {name} is paused", since, by, reason, write_time)
    return f"{text}. It resumes at {write_time(until)}." if until else f"{text}."


def resume_command(kind: str, name: str, tenant: str | None = None) -> str:
    """The command that ends a pause."""
    return f"atlas resume {kind} {name}" + (f" --tenant {tenant}" if tenant else "")


def _since_text(
    what: str, since: datetime, by: str | None, reason: str | None, write_time: Callable[[datetime], str]
) -> str:
    text = f"{what} since {write_time(since)} by {by}"
    return f"{text}: {reason}" if reason else text


class QueueDepth(ApiModel):
    """How many active jobs of a type are in a state, and how long the oldest has waited."""

    job_type: str
    status: Literal["queued", "waiting", "running"]
    count: int
    oldest_seconds: float | None


class WorkerStatus(ApiModel):
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
    drain_requested_at: datetime | None = None
    drain_requested_by: str | None = None
    concurrency: int | None = None


class WorkerJob(ApiModel):
    """A job that a worker runs."""

    id: UUID
    tenant_id: UUID
    job_type: str
    attempt_count: int
    started_at: datetime
    cancel_requested_at: datetime | None


class WorkerDetails(WorkerStatus):
    """A worker process and the jobs that it has claimed."""

    jobs: list[WorkerJob] = Field(description="Those that it holds, the oldest first, at most 200.")


class EngineStatus(ApiModel):
    """Whether a scheduler turns intents into runs, and how many intents wait for that."""

    last_tick_at: datetime | None
    silent_seconds: float | None
    waiting: int
    is_silent: bool


class ProgramStatus(ApiModel):
    """A program of the `atlas up` that serves this API."""

    name: str
    pid: int | None
    started_at: datetime | None
    # How often in a row it ended soon after its start.
    ends: int
    last_end: str | None

    @property
    def warning(self) -> str | None:
        """What a person should know of it. None: it runs."""
        if not self.ends or self._is_steady:
            return None
        times = "once" if self.ends == 1 else f"{self.ends} times in a row"
        now = "is not running now" if self.pid is None else "has just been started again"
        return f"The program {self.name} ended {times}, the last time {self.last_end}, and {now}."

    @property
    def _is_steady(self) -> bool:
        if self.pid is None or self.started_at is None:
            return False
        return (datetime.now(UTC) - self.started_at).total_seconds() >= STEADY_SECONDS


class VersionStatus(ApiModel):
    """A version of Atlas of which programs run."""

    version: str
    workers: int = Field(description="How many workers run it.")
    schedulers: int = Field(description="How many schedulers run it.")
    apis: int = Field(description="How many processes of the API run it.")
    seconds: float = Field(description="For how long the first of them has run.")

    def __str__(self) -> str:
        counted = (("worker", self.workers), ("scheduler", self.schedulers), ("API", self.apis))
        counts = [f"{count} {kind}" if count == 1 else f"{count} {kind}s" for kind, count in counted if count]
        return f"{self.version} ({', '.join(counts)})"


class SystemStatus(ApiModel):
    """The gate, the queue, the workers, the engine, the programs of `atlas up`, and what the audit log lacks."""

    gate: Gate
    pauses: list[Pause] = Field(description="What is paused, oldest first.")
    queue: list[QueueDepth] = Field(description="Active jobs by type and state, the 200 largest counts.")
    workers: list[WorkerStatus] = Field(description="The 200 newest that live; `/workers` lists all.")
    engine: EngineStatus
    programs: list[ProgramStatus]
    audit_lost_end: str | None = Field(
        default=None,
        description="What the audit log lacks of what was signed, after a failover or a restore. Null: nothing.",
    )
    versions: list[VersionStatus] = Field(description="The versions of the programs that run, the newest first.")


class Alert(ApiModel):
    """Something that a person should look at."""

    kind: FindingKind
    subject: str
    message: str
    since: datetime | None = Field(default=None, description="Since when; null if that is not known.")


class Usage(ApiModel):
    """Finished attempts, their time and cost."""

    tenant_id: UUID
    job_type: str
    hour: datetime | None
    runs: int
    succeeded: int
    failed: int
    timed_out: int
    canceled: int
    lost: int
    run_seconds: float
    queue_seconds: float
    cost_cents: int
    currency: str = Field(default="EUR", description="What the cost is counted in: the setting ATLAS_CURRENCY.")


class MatchingIds(ApiModel):
    """The ids that begin with some digits."""

    ids: list[UUID] = Field(description="In their order, at most 9: one alone is the only one.")
