"""Delete: removes a job that is not running, with its attempts. Its events stay in the audit log."""

from uuid import UUID

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.engine.jobs.actions.change_many import change_many
from atlas.errors import Conflict, NotFound


async def delete(conn: Connection, job_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Remove one job. A running one is a Conflict: cancel it first."""
    verdicts = await change_many(conn, "delete", [job_id], actor=actor, tenant_id=tenant_id)
    if job_id not in verdicts:
        raise NotFound("job", job_id)
    if verdicts[job_id] == "running":
        raise Conflict(f"Job {job_id} is running.", remedy="Cancel it, and delete it once it has stopped.")
