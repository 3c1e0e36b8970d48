"""What the commands about jobs and the gate ask of an installation, whichever way it is reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from atlas.engine.jobs import Enqueued, Explanation, JobRow
from atlas.engine.jobs.find import Depth
from atlas.engine.jobs.gate import Gate
from atlas.engine.workflows.find_intents import EngineState


@dataclass(frozen=True, slots=True)
class JobAsked:
    """A job that someone at a terminal wants. Without a tenant it is Atlas's own, or that of the token."""

    job_type: str
    input: dict[str, Any]
    tenant: str | None
    priority: int
    max_retries: int | None
    dedupe_key: str | None
    delay: timedelta | None


@dataclass(frozen=True, slots=True)
class JobsAsked:
    """Which jobs to list."""

    status: str | None
    job_type: str | None
    tenant: str | None
    before: UUID | None
    limit: int


@dataclass(frozen=True, slots=True)
class JobStory:
    """A job, its attempts, and why it is where it is."""

    job: JobRow
    attempts: list[Mapping[str, Any]]
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Standing:
    """The gate, the engine, the queue and the workers."""

    gate: Gate
    engine: EngineState
    queue: list[Depth]
    workers: list[Mapping[str, Any]]


class Backend(Protocol):
    """An Atlas that can be asked."""

    async def enqueue(self, asked: JobAsked) -> Enqueued: ...

    async def list_jobs(self, asked: JobsAsked) -> list[JobRow]: ...

    async def show(self, job_id: UUID) -> JobStory: ...

    async def explain(self, job_id: UUID) -> Explanation: ...

    async def cancel(self, job_id: UUID) -> str: ...

    async def retry(self, job_id: UUID) -> None: ...

    async def retry_dead_letters(
        self, *, tenant: str | None, job_type: str | None, limit: int
    ) -> Mapping[UUID, str]: ...

    async def delete(self, job_id: UUID) -> None: ...

    async def status(self) -> Standing: ...

    async def switch(self, *, online: bool, reason: str | None, until: timedelta | None) -> Gate: ...
