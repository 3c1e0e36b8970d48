"""Reads workflows: the newest versions, and the one that a run keeps."""

from uuid import UUID

from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.errors import NotFound
from atlas.models.rows import from_row, from_rows
from atlas.models.workflows import Workflow

LIST = statement("engine/workflows/sql/list_workflows.sql")
OF_RUN = statement("engine/workflows/sql/workflow_of_run.sql")


async def list_workflows(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    key: str | None = None,
    after: UUID | None = None,
    limit: int | None = None,
) -> list[Workflow]:
    """The workflows by key; with `limit`, the page that follows `after`."""
    values = {"tenant_id": tenant_id, "key": key, "after": after, "limit": limit}
    return from_rows(Workflow, await conn.fetch(LIST.sql, *LIST.bind(values)))


async def workflow_of_run(conn: Queryable, run_id: UUID) -> Workflow:
    """The workflow of a run: the version that it keeps, or the one in code; NotFound once no worker publishes it."""
    row = await conn.fetchrow(OF_RUN.sql, *OF_RUN.bind({"run_id": run_id}))
    if row is None:
        raise NotFound("workflow of run", run_id)
    return from_row(Workflow, row)
