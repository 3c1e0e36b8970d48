"""What the live view sends: a greeting, events, or the mark that too much was missed to be told."""

from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError

from atlas.client.models import ApiModel


class JobEvent(ApiModel):
    """Something happened to a job."""

    event: Literal["job.created", "job_run.started", "job_run.progress", "job_run.completed", "job_run.failed"]
    job_id: UUID
    job_run_id: str | None = None
    job_type: str | None = None
    status: str | None = None
    duration_ms: int | None = None
    error: str | None = None
    server_instance_id: UUID | None = None
    progress: dict[str, Any] | None = None


class GateEvent(ApiModel):
    """Atlas was turned on or off."""

    event: Literal["atlas.online"]
    online: bool
    reason: str | None = None
    by: str | None = None


class RunEvent(ApiModel):
    """A workflow's run got on."""

    event: Literal["run.updated"]
    run_id: UUID
    status: str


Event: TypeAlias = Annotated[JobEvent | GateEvent | RunEvent, Field(discriminator="event")]


class Hello(ApiModel):
    """A connection stands: what happens from now on is told. Sent anew after each reconnection."""

    type: Literal["hello"] = "hello"
    place: str
    room: str


class Events(ApiModel):
    """What happened since the frame before. `more` counts by kind what is not told one by one."""

    type: Literal["events"] = "events"
    place: str
    events: list[Event]
    more: dict[str, int] = Field(default_factory=dict)


class Refetch(ApiModel):
    """Too much happened, or too long ago: what is on the screen must be fetched anew."""

    type: Literal["refetch"] = "refetch"
    place: str | None = None


Frame: TypeAlias = Hello | Events | Refetch

_FRAMES: TypeAdapter[Frame] = TypeAdapter(Annotated[Frame, Field(discriminator="type")])


def frame_of(text: str | bytes) -> Frame:
    """A frame as it was sent. One that only a newer client understands is a reason to fetch anew."""
    try:
        return _FRAMES.validate_json(text)
    except ValidationError:
        return Refetch()
