"""Routes of reports for reviews."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from atlas.api.access.roles import READERS
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.access.access_report import report_access, report_csv
from atlas.engine.tenants.tenants import find_tenant
from atlas.models.access import AccessReport

router = APIRouter(prefix=f"{PREFIX}/audit/reports", route_class=GuardedRoute, tags=["audit"])

Month = Annotated[str, Query(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$", description="The month, in UTC, such as 2026-11.")]


@router.get("/access", operation_id="report_access", summary="Who could do what in a month, and who did")
@requires(*READERS, replica=True)
async def show_access(call: Calling, month: Month) -> AccessReport:
    """Of the tenant, or of the installation for callers without one: then with the logins of the database."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await report_access(conn, month, tenant_id=call.tenant_id)


@router.get(
    "/access/export",
    operation_id="export_access_report",
    response_model=None,
    summary="The same as CSV: a row for each credential, then for each action of each actor",
    responses={
        200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "A header, then a row a line."}
    },
)
@requires(*READERS, replica=True)
async def export_access(call: Calling, month: Month) -> Response:
    """Text that a spreadsheet would run as a formula begins with `'`."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        report = await report_access(conn, month, tenant_id=call.tenant_id)
        tenant = "all-tenants" if call.tenant_id is None else (await find_tenant(conn, call.tenant_id)).slug
    headers = {"Content-Disposition": f'attachment; filename="access_{tenant}_{month}.csv"'}
    return Response(report_csv(report), headers=headers, media_type="text/csv")
