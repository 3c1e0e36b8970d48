"""The versions of a workflow: reading them, and making an old one the newest again."""

from typing import TYPE_CHECKING
from uuid import UUID

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.engine.helper_process import Run, run_here
from atlas.engine.workflows.declared.store import Saved, save_workflow
from atlas.errors import NotFound, Refused
from atlas.models.rows import from_row, from_rows
from atlas.models.workflows import Workflow

if TYPE_CHECKING:
    from atlas.generated.types import WorkflowWhereInput


async def list_versions(
    conn: Connection, key: str, *, tenant_id: UUID | None = None, after: int | None = None, limit: int | None = None
) -> list[Workflow]:
    """The versions of a workflow, newest first; with `limit`, one page of them. Code's is version 0.

    They are the tenant's own; of a workflow that it has none of, everyone's. Without a tenant they are everyone's.
    """
    where: WorkflowWhereInput = {"key": key, "tenantId": await _owner(conn, key, tenant_id)}
    if after is not None:
        where["version"] = {"lt": after}
    rows = await prisma_on(conn).workflow.find_many(limit, where=where, order={"version": "desc"})
    return from_rows(Workflow, rows)


async def get_version(conn: Connection, key: str, version: int, *, tenant_id: UUID | None = None) -> Workflow:
    """One version, of those that `list_versions` finds."""
    return await _version(conn, key, version, await _owner(conn, key, tenant_id))


async def roll_back(
    conn: Connection,
    key: str,
    version: int,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    expected_version: int | None = None,
    run: Run = run_here,
) -> Saved:
    """Save what an old version holds as the newest one, of a tenant's own workflow or, without a tenant, of everyone's.

    Runs keep the version that they began with. It is checked like a new document: what was valid once may not be now.
    """
    row = await _version(conn, key, version, None if tenant_id is None else str(tenant_id))
    if row.document is None:
        raise Refused(
            f"Version {version} of {key} is in the code of workers.", remedy="Deploy the code that you want to run."
        )
    return await save_workflow(
        conn,
        row.document,
        actor=actor,
        tenant_id=tenant_id,
        expected_version=expected_version,
        restored_from=version,
        run=run,
    )


async def _owner(conn: Connection, key: str, tenant_id: UUID | None) -> str | None:
    """Whose workflow a key means: the tenant's own, else everyone's (None), else NotFound."""
    workflows = prisma_on(conn).workflow
    for owner in (None,) if tenant_id is None else (str(tenant_id), None):
        if await workflows.find_first(where={"key": key, "tenantId": owner}) is not None:
            return owner
    raise NotFound("workflow", key, remedy="`atlas workflow list --workflows` shows them.")


async def _version(conn: Connection, key: str, version: int, owner: str | None) -> Workflow:
    row = await prisma_on(conn).workflow.find_first(where={"key": key, "tenantId": owner, "version": version})
    if row is None:
        remedy = f"`atlas workflow versions {key}` shows them."
        raise NotFound("version", f"{version} of workflow {key}", remedy=remedy)
    return from_row(Workflow, row)
