"""Routes of reports for reviews."""

from typing import Annotated

from fastapi import APIRouter, Query

from atlas.api.request_context import Calling
from atlas.api.roles import READERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.client.models.access import AccessReport
from atlas.engine.access_report import report_access

router = APIRouter(prefix=f"{PREFIX}/audit/reports", route_class=GuardedRoute, tags=["audit"])


@router.get("/access", operation_id="report_access", summary="Who could do what in a month, and who did")
@requires(*READERS, replica=True)
async def show_access(
    call: Calling,
    month: Annotated[
        str, Query(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$", description="The month, in UTC, such as 2026-11.")
    ],
) -> AccessReport:
    """Of the tenant, or of the installation for callers without one: then with the logins of the database."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await report_access(conn, month, tenant_id=call.tenant_id)
