"""Reading intents."""

from typing import TYPE_CHECKING, get_args
from uuid import UUID

from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Queryable
from atlas.db.prisma import page_filter, prisma_on
from atlas.engine.workflows.rows import check_status
from atlas.models.rows import from_row
from atlas.models.workflows import Intent, IntentStatus

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import IntentWhereInput

INTENT_STATUSES = get_args(IntentStatus)


async def list_intents(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    workflow: str | None = None,
    status: str | None = None,
    after: UUID | None = None,
    limit: int = 50,
) -> list[Intent]:
    """Intents, newest first."""
    check_status(status, INTENT_STATUSES)
    where: IntentWhereInput = page_filter(tenant_id=tenant_id, id=id, before=after, workflow=workflow, status=status)
    rows = await prisma_on(conn).intent.find_many(min(limit, MAX_PAGE_SIZE), where=where, order={"id": "desc"})
    return [_intent(row) for row in rows]


def _intent(row: "models.Intent") -> Intent:
    return from_row(Intent, row, input_hash=row.inputHash.decode().hex())
