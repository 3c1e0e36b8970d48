"""Usage, outcomes, times and cost of jobs over hours and days."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, known
from atlas.models.overview import Flow, Point


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
    total: Flow = Field(description="The whole time.")
    previous: Flow | None = Field(description="As many steps before it; null if they are not kept any more.")
    points: list[Point] = Field(description="Every step, the oldest first.")
    groups: list[InsightsGroup] = Field(description="Each job type or tenant, the busiest first.")
    is_cut: bool = Field(description="Whether there are more of them than these 100.")
