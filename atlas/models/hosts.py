"""Hosts, the servers on them, and the commands that jobs may run."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, Document, EditableModel


class Host(EditableModel):
    """A machine of a tenant that fetches its own jobs, and the names of its servers."""

    tagged: ClassVar = ("id", "is_active", "name")

    id: UUID
    tenant_id: UUID
    name: str
    is_active: bool
    last_seen_at: datetime | None
    created_at: datetime
    updated_at: datetime
    agent_version: str | None
    instances: list[str]
    running_job_id: UUID | None
    waiting_count: int


class ServerInstance(EditableModel):
    """A server on a host."""

    tagged: ClassVar = ("id", "host_id", "name")

    id: UUID
    tenant_id: UUID
    host_id: UUID
    name: str
    created_at: datetime
    updated_at: datetime


class CommandLimits(ApiModel):
    """What a command and each process it starts may use; `processes` counts them all together."""

    cpu_seconds: int | None
    memory_mb: int
    files: int
    processes: int
    file_size_mb: int


class CommandDefinition(ApiModel):
    """A command that jobs may run."""

    id: UUID
    key: str
    description: str
    argv: list[Any] = Field(description="The program and its arguments; `{{ name }}` is filled from the payload.")
    programs: dict[str, str] = Field(description="Names that `argv` may begin with, each with its program's path.")
    arg_schema: Document
    timeout_seconds: int
    max_retries: int
    max_attempts: int
    retry_policy: Any
    concurrency: int | None
    concurrency_key: str | None
    rate: str | None
    burst: int | None
    limits: CommandLimits
    env: dict[str, str | None]
    is_active: bool
    created_at: datetime
    updated_at: datetime
