"""Usage, outcomes, times and cost of jobs over hours and days."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, known
from atlas.models.overview import Flow, Point
from atlas.models.workflows import StepKind


class InsightsGroup(Flow):
    """All that happened to the jobs of a type, or of a tenant."""

    job_type: str | None = Field(description="The job type; null where tenants are compared.")
    tenant_id: UUID | None = Field(description="The tenant; null where job types are compared.")
    tenant: str | None = Field(description="The tenant's slug.")


class Insights(ApiModel):
    """What happened to jobs in some time."""

    step: Annotated[str, known("minute", "hour", "day")]
    start: datetime
    end: datetime
    metered_until: datetime | None = Field(description="What was committed before this time is in it.")
    currency: str = Field(description="What costs are counted in cents of: a code of ISO 4217.")
    total: Flow = Field(description="The whole time.")
    previous: Flow | None = Field(description="As many steps before it; null if they are not kept any more.")
    points: list[Point] = Field(description="Every step, the oldest first.")
    groups: list[InsightsGroup] = Field(description="Each job type or tenant, the busiest first.")
    is_cut: bool = Field(description="Whether there are more of them than these 100.")


class StepTime(ApiModel):
    """How long the finished steps of one name took."""

    workflow: str
    step: str = Field(description="The name of the step.")
    kind: StepKind
    count: int = Field(description="How many finished.")
    failed: int = Field(description="How many of them failed.")
    p50: float = Field(description="The median, in seconds. A step that waits counts its wait.")
    p95: float = Field(description="The 95th percentile, in seconds.")
    total_seconds: float = Field(description="All of them together.")
    share: float = Field(description="Their part of the time of all steps, from 0 to 1.")


class StepTimes(ApiModel):
    """The steps that took the most time, of runs that began in some time."""

    start: datetime
    end: datetime
    runs: int = Field(description="How many runs it was computed from.")
    is_sampled: bool = Field(description="Whether there were more; then it is computed from the newest.")
    items: list[StepTime] = Field(description="At most 100 steps, those that took the most time first.")
