"""Delete: a job that does not run, with its attempts, for good. The audit keeps what happened to it."""

from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.errors import Conflict, NotFound
from atlas.pool import Connection
from atlas.statements import fetch_row, statement

DELETE = statement("engine/jobs/sql/delete.sql")


async def delete(conn: Connection, job_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Remove one job. A running one is a Conflict: cancel it first."""
    row = await fetch_row(
        conn,
        DELETE,
        job_id=job_id,
        tenant_id=tenant_id,
        actor_type=actor.type,
        actor_id=actor.id,
        meta=orjson.dumps(actor.meta).decode(),
    )
    if row is None:
        raise NotFound("job", job_id)
    if not row["deleted"]:
        raise Conflict(f"Job {job_id} is running.", remedy="Cancel it, and delete it once it has stopped.")
