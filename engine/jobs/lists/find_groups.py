"""Groups of jobs as people look them up."""

from uuid import UUID

from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import NotFound
from atlas.models.jobs import JobGroup
from atlas.models.rows import from_row, from_rows

LIST = statement("engine/jobs/lists/sql/list_groups.sql")


async def find_group(conn: Connection, group_id: UUID, *, tenant_id: UUID | None = None) -> JobGroup:
    """One group with its members as they are; NotFound if there is none, or if it is another tenant's."""
    row = await fetch_row(conn, LIST, id=group_id, tenant_id=tenant_id, before=None, limit=1)
    if row is None:
        raise NotFound("group", group_id)
    return from_row(JobGroup, row)


async def list_groups(
    conn: Connection, *, tenant_id: UUID | None = None, after: UUID | None = None, limit: int = MAX_PAGE_SIZE
) -> list[JobGroup]:
    """The newest first. The members of a group that has ended are those of its end."""
    rows = await fetch(conn, LIST, id=None, tenant_id=tenant_id, before=after, limit=min(limit, MAX_PAGE_SIZE))
    return from_rows(JobGroup, rows)
