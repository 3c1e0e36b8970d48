"""Delete: removes jobs that are not running, with their attempts. Their events stay in the audit log.

Discard: makes a dead letter an ordinary failed job, which retention removes in time.
"""

from collections.abc import Sequence
from uuid import UUID

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import statement
from atlas.engine.jobs.actions.change_many import change_many
from atlas.errors import Conflict, NotFound

DELETE = statement("engine/jobs/actions/sql/delete.sql")
DISCARD = statement("engine/jobs/actions/sql/discard.sql")


async def delete(conn: Connection, job_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Remove one job. A running one is a Conflict: cancel it first."""
    verdicts = await delete_many(conn, [job_id], actor=actor, tenant_id=tenant_id)
    if job_id not in verdicts:
        raise NotFound("job", job_id)
    if verdicts[job_id] == "running":
        raise Conflict(f"Job {job_id} is running.", remedy="Cancel it, and delete it once it has stopped.")


async def delete_many(
    conn: Connection, job_ids: Sequence[UUID], *, actor: Actor, tenant_id: UUID | None
) -> dict[UUID, str]:
    """Remove many jobs of one tenant, or of all (None). Returns for each job found `deleted` or `running`."""
    return await change_many(conn, DELETE, job_ids, actor=actor, tenant_id=tenant_id)


async def discard_many(
    conn: Connection, job_ids: Sequence[UUID], *, actor: Actor, tenant_id: UUID | None
) -> dict[UUID, str]:
    """Take dead letters of one tenant, or of all (None), off their list.

    Returns for each job found `discarded`, or the status that it has.
    """
    return await change_many(conn, DISCARD, job_ids, actor=actor, tenant_id=tenant_id)
