"""The description of a trigger: when it fires, and what it starts."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_WINDOW = 30 * 86_400


class TriggerSpec(BaseModel):
    """When a trigger fires, and what it starts: exactly one of a definition, a job type and a workflow."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    label: str
    trigger_type: Literal["event", "schedule"]
    is_enabled: bool = True
    event_name: str | None = None
    cron_expr: str | None = None
    timezone: str | None = None
    definition_key: str | None = None
    job_type: str | None = None
    workflow: str | None = None
    payload_template: dict[str, Any] = {}
    dedupe_window_seconds: int = Field(default=300, ge=0, le=MAX_WINDOW)
    misfire: Literal["skip", "latest", "all"] = "latest"
