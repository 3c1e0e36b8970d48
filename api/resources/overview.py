"""Routes for the first look: one tenant or the installation, and tenants side by side."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field, TypeAdapter

from atlas.api.paging import Cursor, Limit, read_cursor, read_page
from atlas.api.request_context import Calling
from atlas.api.resources.series import FlowShown
from atlas.api.roles import JOB_READERS, READERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.client.models import ApiModel, GateStatus, Page, known
from atlas.engine.overview import TenantPosition, read_overview, read_tenants

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["overview"])

TENANT_POSITION: TypeAdapter[TenantPosition] = TypeAdapter(tuple[int, UUID])
# What everyone who reads jobs may see of what needs a person; the rest is for those who may list it.
FOR_ALL = ("dead_letters", "no_worker")
NeedKind: TypeAlias = Annotated[
    str,
    known(
        *("worker_lost", "host_silent", "intents_stuck", "engine_silent", "failures_rise", "no_worker"),
        *("dead_letters", "approvals", "schedules_late", "triggers_failing", "webhooks_disabled", "seal_lag"),
    ),
]


class SealStatusShown(ApiModel):
    """How far the audit log is sealed, of the caller's rows."""

    unsealed: int = Field(description="Rows without a seal, 10,000 at most.")
    lag_seconds: float = Field(description="How long the oldest of them has waited, in seconds.")
    sealed_at: datetime | None = Field(description="When rows were sealed last.")
    signed_at: datetime | None = Field(description="When the tree's head was signed last.")


class TypeActivityShown(ApiModel):
    """A job type: what waits and runs now, and what happened in the last hour."""

    job_type: str
    queued: int = Field(description="Due jobs.")
    running: int
    is_partial: bool = Field(description="True where the queue is longer than was counted.")
    is_served: bool = Field(description="Whether a living worker serves the type; workers over HTTP are not known.")
    last_hour: FlowShown = Field(description="What happened in the last hour.")


class FailedJobShown(ApiModel):
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


class NeedShown(ApiModel):
    """Something for a person to look at."""

    kind: NeedKind
    count: int
    message: str
    address: str = Field(description="The address of their list, below `/api/v1`.")
    subject: str | None
    since: datetime | None


class OverviewShown(ApiModel):
    """What an operator or a tenant looks at first."""

    gate: GateStatus
    counts: dict[str, int]
    estimated: list[str]
    oldest_queued_seconds: float | None
    workers: int = Field(description="How many workers live; they serve all tenants.")
    seal: SealStatusShown | None = Field(
        description="How far the audit log is sealed; null for callers who may not read it."
    )
    types: list[TypeActivityShown] = Field(description="The busiest job types, ten at most.")
    failures: list[FailedJobShown] = Field(description="The failed jobs that ended last, ten at most.")
    needs: list[NeedShown] = Field(description="What needs a person, what stops work first.")


class TenantActivityShown(ApiModel):
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


@router.get("/overview", operation_id="get_overview", summary="What to look at first, of a tenant or of all")
@requires(*JOB_READERS)
async def show_overview(call: Calling) -> OverviewShown:
    """Counts, workers, the busiest job types, the latest failures, and what needs a person, in one call.

    Of the caller's tenant; an operator who names none sees the installation.
    """
    read, write = partial(call.transaction, read_only=True), partial(call.transaction, all_tenants=True)
    found = await read_overview(read, write, tenant_id=call.tenant_id)
    reads_all = call.caller.role in READERS
    shown: dict[str, Any] = {
        "gate": GateStatus.model_validate(found.gate),
        "seal": found.seal if reads_all else None,
        "needs": [one for one in found.needs if reads_all or one.kind in FOR_ALL],
        **{name: getattr(found, name) for name in ("workers", "types", "failures")},
        **{name: getattr(found.summary, name) for name in ("counts", "estimated", "oldest_queued_seconds")},
    }
    return OverviewShown.model_validate(shown)


@router.get(
    "/overview/tenants",
    operation_id="list_tenant_activity",
    summary="Tenants side by side: depth, rates, oldest, failures",
)
@requires("operator", "auditor", whole=True)
async def show_tenants(call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[TenantActivityShown]:
    """Those with the most active jobs first. The counts are those of the meter, some seconds old."""
    after = read_cursor(cursor, TENANT_POSITION)
    async with call.transaction(read_only=True) as conn:
        return await read_page(
            lambda before, limit: read_tenants(conn, before=before, limit=limit),
            TenantActivityShown.model_validate,
            after=after,
            limit=limit,
            key=lambda one: (one.active, one.id),
        )
