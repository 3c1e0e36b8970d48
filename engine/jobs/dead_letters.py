"""Dead letters by cause: those of one type whose errors are alike are one group."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement

GROUPS = statement("engine/jobs/sql/dead_letter_groups.sql")

# Of a tenant, and of all: read and grouped in some 100 ms.
MOST_READ = 5_000
MOST_GROUPS = 200


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters of one type with the same error, but for the numbers, ids and addresses in its message."""

    job_type: str
    error_type: str | None
    error_pattern: str | None
    message: str | None
    count: int
    # Of them: their outcome is unknown, and they are retried only by their ids.
    unknown_outcomes: int
    first_at: datetime
    last_at: datetime
    sample_id: UUID


@dataclass(frozen=True, slots=True)
class DeadLetterGroups:
    """The groups, and of how many dead letters they are; `complete` is false where there are more."""

    groups: list[DeadLetterGroup]
    examined: int
    complete: bool


async def group_dead_letters(
    conn: Connection, *, tenant_id: UUID | None = None, most_read: int = MOST_READ
) -> DeadLetterGroups:
    """The newest dead letters by type and error, the largest groups first."""
    most = {"most_read": most_read, "most_of_all": most_read, "limit": MOST_GROUPS}
    rows = await fetch(conn, GROUPS, tenant_id=tenant_id, **most)
    examined = rows[0]["examined"] if rows else 0
    found = [DeadLetterGroup(**{name: row[name] for name in DeadLetterGroup.__slots__}) for row in rows]
    return DeadLetterGroups(found, examined, examined < most_read and len(found) < MOST_GROUPS)
