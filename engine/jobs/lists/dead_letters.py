"""Dead letters by cause: those of one type whose errors are alike are one group.

The meter counts them as it reads the audit log, so that a page of causes costs the same however many dead letters there
are, and however old most of them are.
"""

from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.jobs.lists.counts import Transaction, update_counts
from atlas.models.jobs import DeadLetterGroup, DeadLetterGroups
from atlas.models.rows import from_rows

GROUPS = statement("engine/jobs/lists/sql/dead_letter_groups.sql")

MAX_GROUPS = 200


async def group_dead_letters(
    read: Transaction, write: Transaction | None, *, tenant_id: UUID | None = None
) -> DeadLetterGroups:
    """Dead letters by type and error, those of the newest first, counted up to now.

    The transactions are those of `summarize`. Without `write`, on a standby, the counts are those of the meter's last
    poll, and are not called complete.
    """
    is_current = write is not None and await update_counts(write)
    async with read() as conn:
        return await read_dead_letters(conn, tenant_id=tenant_id, is_current=is_current)


async def read_dead_letters(
    conn: Connection, *, tenant_id: UUID | None = None, is_current: bool = True, limit: int = MAX_GROUPS
) -> DeadLetterGroups:
    """The same as the meter has counted them until now."""
    rows = await fetch(conn, GROUPS, tenant_id=tenant_id, limit=limit)
    groups = from_rows(DeadLetterGroup, rows)
    sum_of_counts = sum(group.count for group in groups)
    count = sum_of_counts if len(groups) < limit else max(sum_of_counts, rows[0]["total"] or 0)
    return DeadLetterGroups(items=groups, count=count, examined=count, complete=is_current and count == sum_of_counts)
