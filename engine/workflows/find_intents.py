"""Reading intents."""

from typing import TYPE_CHECKING, cast, get_args
from uuid import UUID

from atlas.bounds import LARGEST_PAGE
from atlas.db.pool import Queryable
from atlas.db.prisma import prisma_on
from atlas.engine.workflows.rows import check_status, id_filter
from atlas.models.rows import from_row
from atlas.models.workflows import Intent, IntentStatus

if TYPE_CHECKING:
    from atlas.generated import enums, models
    from atlas.generated.types import IntentWhereInput

INTENT_STATUSES = get_args(IntentStatus)


async def list_intents(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    workflow: str | None = None,
    status: str | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[Intent]:
    """Intents, newest first."""
    check_status(status, INTENT_STATUSES)
    where: IntentWhereInput = {"id": id_filter(id, before)}
    if tenant_id is not None:
        where["tenantId"] = str(tenant_id)
    if workflow is not None:
        where["workflow"] = workflow
    if status is not None:
        where["status"] = cast("enums.IntentStatus", status)
    rows = await prisma_on(conn).intent.find_many(min(limit, LARGEST_PAGE), where=where, order={"id": "desc"})
    return [_intent(row) for row in rows]


def _intent(row: "models.Intent") -> Intent:
    return from_row(Intent, row, input_hash=row.inputHash.decode().hex())
