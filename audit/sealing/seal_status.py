"""How far sealing is: rows that no seal covers yet, and how long they wait."""

from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.models.audit import SealStatus
from atlas.models.rows import from_row

STATUS = statement("audit/sealing/sql/seal_status.sql")

# More are not counted.
MAX_UNSEALED = 10_000


async def seal_status(conn: Connection, *, tenant_id: UUID | None = None, most: int = MAX_UNSEALED) -> SealStatus:
    """How far sealing is, of a tenant's rows or of all. The connection sees all tenants."""
    row = await fetch_row(conn, STATUS, tenant_id=tenant_id, most=most)
    assert row is not None
    return from_row(SealStatus, row)


async def seal_lag(conn: Connection) -> float:
    """How long the oldest committed row has been waiting for its seal, in seconds."""
    return (await seal_status(conn, most=1)).lag_seconds
