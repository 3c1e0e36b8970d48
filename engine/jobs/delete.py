"""Delete: removes a job that is not running, with its attempts. Its events stay in the audit log."""

from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, retry_deadlocks, statement
from atlas.errors import Conflict, NotFound

DELETE = statement("engine/jobs/sql/delete.sql")


async def delete(conn: Connection, job_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Remove one job. A running one is a Conflict: cancel it first."""
    values = {
        "job_id": job_id,
        "tenant_id": tenant_id,
        "actor_type": actor.type,
        "actor_id": actor.id,
        "meta": orjson.dumps(actor.meta).decode(),
    }
    # A transaction that waits for the job may hold rows that are deleted with it.
    row = await retry_deadlocks(conn, lambda: fetch_row(conn, DELETE, **values))
    if row is None:
        raise NotFound("job", job_id)
    if not row["deleted"]:
        raise Conflict(f"Job {job_id} is running.", remedy="Cancel it, and delete it once it has stopped.")
