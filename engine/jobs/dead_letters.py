"""Dead letters by cause: those of one type whose errors are alike are one group."""

from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.models.jobs import DeadLetterGroup, DeadLetterGroups
from atlas.models.rows import from_rows

GROUPS = statement("engine/jobs/sql/dead_letter_groups.sql")

# Of a tenant, and of all: read and grouped in some 100 ms.
MOST_READ = 5_000
MOST_GROUPS = 200


async def group_dead_letters(
    conn: Connection, *, tenant_id: UUID | None = None, most_read: int = MOST_READ
) -> DeadLetterGroups:
    """The newest dead letters by type and error, the largest groups first."""
    most = {"most_read": most_read, "most_of_all": most_read, "limit": MOST_GROUPS}
    rows = await fetch(conn, GROUPS, tenant_id=tenant_id, **most)
    examined = rows[0]["examined"] if rows else 0
    found = from_rows(DeadLetterGroup, rows)
    return DeadLetterGroups(items=found, examined=examined, complete=examined < most_read and len(found) < MOST_GROUPS)
