"""Routes for the first look: one tenant or the installation, and tenants side by side."""

from operator import attrgetter
from uuid import UUID

from fastapi import APIRouter
from pydantic import TypeAdapter

from atlas.api.access.roles import JOB_READERS, READERS
from atlas.api.paging import Cursor, Limit, list_page, read_cursor
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.metering.overview import TenantPosition, read_overview, read_tenants
from atlas.models import Page
from atlas.models.overview import Overview, TenantActivity

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["overview"])

TENANT_POSITION: TypeAdapter[TenantPosition] = TypeAdapter(tuple[int, UUID])
# What everyone who reads jobs may see of what needs attention; the rest is for those who may list it.
FOR_ALL = ("dead_letters", "no_worker")


@router.get("/overview", operation_id="get_overview", summary="What to look at first, of a tenant or of all")
@requires(*JOB_READERS, replica=True)
async def show_overview(call: Calling) -> Overview:
    """Counts, workers, the busiest job types, the latest failures, and what needs attention, in one call.

    Of the caller's tenant; an operator who names none sees the installation.
    """
    overview = await read_overview(*call.summary_transactions(), tenant_id=call.tenant_id)
    if call.caller.role in READERS:
        return overview
    needs = [need for need in overview.needs if need.kind in FOR_ALL]
    return overview.model_copy(update={"seal": None, "needs": needs})


@router.get(
    "/overview/tenants",
    operation_id="list_tenant_activity",
    summary="Tenants side by side: depth, rates, oldest, failures",
)
@requires("operator", "auditor", whole=True, replica=True)
async def show_tenants(call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[TenantActivity]:
    """Those with the most active jobs first. The counts are those of the meter, some seconds old."""
    after = read_cursor(cursor, TENANT_POSITION)
    return await list_page(call, read_tenants, after, limit, key=attrgetter("active", "id"))
