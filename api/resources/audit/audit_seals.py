"""Routes for what proves the audit log: its seals, its signed checkpoints, the keys that verify them."""

import orjson
from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from atlas.api.access.roles import READERS
from atlas.api.paging import Limit, NumberCursor, read_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.audit.keys import public_key_files
from atlas.audit.sealing.seal_status import seal_status
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import NotFound
from atlas.models import Page
from atlas.models.audit import AuditCheckpoint, AuditSeal, AuditStatus
from atlas.models.rows import from_row

router = APIRouter(prefix=f"{PREFIX}/audit", route_class=GuardedRoute, tags=["audit"])

SEALS = statement("api/resources/audit/sql/seals.sql")
TENANT_SEALS = statement("api/resources/audit/sql/seals_of_tenant.sql")
STATUS = statement("api/resources/audit/sql/audit_status.sql")
NEWEST = 2**63 - 1


@router.get("/status", operation_id="get_audit_status", summary="How far the audit log is sealed, signed and verified")
@requires(*READERS)
async def show_status(call: Calling) -> AuditStatus:
    """Rows that wait and the last seal are those of the tenant where one is meant; sizes are of the whole log."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        row = await fetch_row(conn, STATUS)
        assert row is not None
        sealing = await seal_status(conn, tenant_id=call.tenant_id)
    verified = None if row["verified"] is None else orjson.loads(row["verified"])
    return AuditStatus.model_validate({**row, **dict(sealing), "verified": verified})


@router.get("/seals", operation_id="list_seals", summary="The seals, newest first")
@requires(*READERS)
async def show_seals(call: Calling, limit: Limit = 50, cursor: NumberCursor = None) -> Page[AuditSeal]:
    """Within a second new rows become leaves of the tree, a batch at a time. Tenants see those with own rows."""
    of = {} if call.tenant_id is None else {"tenant_id": call.tenant_id}
    query = TENANT_SEALS if of else SEALS
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await read_page(
            lambda after, limit: fetch(conn, query, before=after or NEWEST, limit=limit, **of),
            cursor,
            limit,
            show=lambda row: from_row(AuditSeal, row),
            key=lambda row: row["n"],
        )


@router.get("/checkpoints", operation_id="list_checkpoints", summary="The signed checkpoints, newest first")
@requires(*READERS, by_tenant=False)
async def show_checkpoints(call: Calling, limit: Limit = 50, cursor: NumberCursor = None) -> Page[AuditCheckpoint]:
    """They show the size of the audit log and that it has not changed, nothing of its content."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await read_page(
            lambda after, limit: prisma_on(conn).auditcheckpoint.find_many(
                limit, where={"size": {"lt": after or NEWEST}}, order=[{"size": "desc"}, {"keyName": "desc"}]
            ),
            cursor,
            limit,
            show=lambda row: from_row(AuditCheckpoint, row),
            key=lambda row: row.size,
        )


@router.get(
    "/key",
    operation_id="get_audit_key",
    response_class=PlainTextResponse,
    summary="The public keys that verify checkpoints, one per line",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@requires(*READERS, by_tenant=False)
async def show_key(call: Calling) -> str:
    """The newest first, then the older ones, which verify what they signed.

    A machine without keys has none to show; they are where the audit log is signed.
    """
    files = public_key_files(call.api.settings)
    if not files:
        raise NotFound("public key", "on this machine", remedy="Copy audit.pub here from the machine that signs.")
    return "".join(f"{path.read_text(encoding='utf-8').strip()}\n" for path in files)
