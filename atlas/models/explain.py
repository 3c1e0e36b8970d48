"""Why a job, a run, a trigger or a worker does not do anything, in one shape."""

from typing import Annotated, TypeAlias

from pydantic import Field

from atlas.models.base import ApiModel, known
from atlas.models.jobs import KnownJobStatus
from atlas.models.sentences import SentencePart

# Why a job is where it is; a run has its job's reasons too.
_OF_JOBS = (
    *("gate", "waiting", "not_due", "disabled", "host", "no_worker", "limit", "alone", "queue", "share", "next"),
    *("stopping", "running", "failed", "dead_letter", "succeeded", "canceled", "expired", "rate", "paused", "horizon"),
    *("effect", "compensated"),
)
JobReason: TypeAlias = Annotated[str, known(*_OF_JOBS)]
RunReason: TypeAlias = Annotated[
    str,
    known(
        *("review", "blocked", "rejected", "gone", "engine_off", "engine_silent", "requested"),
        *("retrying", "sleeping", "approval", "event", "job", "child"),
        *_OF_JOBS,
    ),
]
TriggerReason: TypeAlias = Annotated[
    str,
    known(
        *("disabled", "gate", "broken", "target_missing", "no_next_time", "late", "failed", "skipped", "scheduled"),
        *("no_event", "no_match", "unhandled", "swallowed", "before_active", "fired", "blocked", "review"),
        "paused",
    ),
]
WorkerReason: TypeAlias = Annotated[
    str,
    known(
        *("ended", "lease_lost", "draining", "gate", "full", "busy"),
        *("next", "paused", "limited", "other_types", "host_only", "nothing_due"),
    ),
]


RemedyVerb: TypeAlias = Annotated[
    str,
    known(
        *("resume", "retry", "decide", "bring_online", "enable_engine", "edit_tenant", "edit_definition"),
        *("enable_trigger", "fire_trigger", "open_job", "open_run", "settle_effect"),
    ),
]


class Remedy(ApiModel):
    """The remedy as an action, for a button."""

    verb: RemedyVerb = Field(description="What to do.")
    target: str | None = Field(
        default=None,
        description="The id of the pause, job, run, approval, effect or trigger to do it to; the slug of a tenant,"
        " the key of a definition. Null for the gate and the engine.",
    )


class Explanation(ApiModel):
    """A reason for programs, a sentence for people, and the way out."""

    kind: Annotated[str, known("job", "run", "trigger", "worker")] = Field(description="What it is about.")
    id: str
    status: str
    reason: str = Field(description="A stable word for programs.")
    sentence: str
    parts: list[SentencePart] = Field(
        default_factory=list, description="The sentence again, split into its texts and times."
    )
    remedy: str | None = Field(description="What a person can do about it; null if there is nothing to do.")
    command: str | None = Field(description="A command that does it, or shows more; null if there is none.")
    numbers: dict[str, int] = Field(description="The figures behind it, by name.")
    action: Remedy | None = Field(
        default=None,
        description="The remedy as an action; null if there is none.",
        examples=[{"verb": "resume", "target": "01a1e0c2-7b3d-7c4e-8f90-123456789abc"}],
    )

    @property
    def text(self) -> str:
        """The sentence, the remedy and the command."""
        if self.command is None:
            return self.sentence if self.remedy is None else f"{self.sentence} {self.remedy}"
        return f"{self.sentence} {(self.remedy or 'See more.').rstrip('.')}: `{self.command}`"


class JobExplanation(Explanation):
    """Why a job is not running, or who runs it."""

    status: KnownJobStatus
    reason: JobReason


class RunExplanation(Explanation):
    """Why a run, or the request for one, does not go on."""

    status: str = Field(description="The status of the run, or of its request while there is no run.")
    reason: RunReason


class TriggerExplanation(Explanation):
    """Why a trigger did not fire, or when it fires next."""

    status: Annotated[str, known("enabled", "disabled")]
    reason: TriggerReason


class WorkerExplanation(Explanation):
    """Why a worker takes nothing, or what it does."""

    status: Annotated[str, known("alive", "draining", "ended")]
    reason: WorkerReason
