"""Frames of the live view: Hello, Events, or Refetch when too much was missed."""

from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError

from atlas.models.base import ApiModel, known
from atlas.models.jobs import KnownJobStatus

# It runs, or waits and takes no worker; steps of it began or ended; a person was asked or has decided; policy has
# blocked the request.
RunUpdate: TypeAlias = Annotated[
    str, known("running", "put_down", "steps_changed", "approval_requested", "approval_decided", "intent_blocked")
]


class JobEvent(ApiModel):
    """Something happened to a job."""

    event: Literal[
        "job.created",
        "job.cancel_requested",
        "job.discarded",
        "job.deleted",
        "job_run.started",
        "job_run.progress",
        "job_run.completed",
        "job_run.failed",
    ]
    job_id: UUID
    tenant_id: UUID | None = None
    job_run_id: str | None = None
    job_type: str | None = None
    attempt_count: int | None = None
    correlation_id: str | None = None
    status: KnownJobStatus | None = None
    duration_ms: int | None = None
    error: str | None = None
    server_instance_id: UUID | None = None
    progress: dict[str, Any] | None = None


class GateEvent(ApiModel):
    """Atlas went online or offline."""

    event: Literal["atlas.online"]
    online: bool
    reason: str | None = None
    by: str | None = None
    since: datetime | None = Field(default=None, description="Since when it is as it is.")
    until: datetime | None = Field(default=None, description="When it comes back online by itself.")


class PauseEvent(ApiModel):
    """Something was paused or resumed."""

    event: Literal["pause.updated"]
    kind: str = Field(description="What it is: a tenant, type, definition, workflow, host or trigger.")
    target: str = Field(description="Its key, or the id of a tenant, host or trigger.")
    tenant_id: UUID | None = None
    paused: bool = Field(description="False where it was resumed.")
    by: str


class RunEvent(ApiModel):
    """A workflow's run changed."""

    event: Literal["run.updated"]
    run_id: UUID
    status: RunUpdate
    approval_id: UUID | None = None


class TriggerEvent(ApiModel):
    """A trigger fired, could not, or missed a time; or it was added, changed or removed."""

    event: Literal["trigger.fired", "trigger.failed", "trigger.updated"]
    trigger_id: UUID
    tenant_id: UUID | None = None


Event: TypeAlias = Annotated[JobEvent | GateEvent | PauseEvent | RunEvent | TriggerEvent, Field(discriminator="event")]


class Hello(ApiModel):
    """The connection is open: events from now on are sent. Sent again after each reconnection."""

    type: Literal["hello"] = "hello"
    place: str
    room: str


class Events(ApiModel):
    """What happened since the frame before: nothing, in the frames that show that the server still answers.

    `more` counts by kind the events that are not listed.
    """

    type: Literal["events"] = "events"
    place: str
    events: list[Event]
    more: dict[str, int] = Field(default_factory=dict)


class Refetch(ApiModel):
    """Too much happened, or too long ago: fetch again what is shown."""

    type: Literal["refetch"] = "refetch"
    place: str | None = None


Frame: TypeAlias = Hello | Events | Refetch


def frame_of(text: str | bytes) -> Frame:
    """Read a frame. One that only a newer client understands counts as a Refetch."""
    try:
        return _frames().validate_json(text)
    except ValidationError:
        return Refetch()


@cache
def _frames() -> TypeAdapter[Frame]:
    return TypeAdapter(Annotated[Frame, Field(discriminator="type")])
