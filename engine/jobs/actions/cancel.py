"""Cancel: a queued job ends immediately, a running one is asked to stop. If it ends first, that outcome stands."""

from typing import Literal
from uuid import UUID

from atlas.actors import Actor, as_actor
from atlas.db.pool import Connection
from atlas.engine.jobs.actions.change_many import change_many
from atlas.errors import Conflict, NotFound

CancelVerdict = Literal["canceled", "requested", "ended"]


async def cancel(conn: Connection, job_id: UUID, *, actor: Actor | str, tenant_id: UUID | None = None) -> CancelVerdict:
    """Cancel one job: `canceled` immediately, or `requested` of the worker that runs it. An ended job is a Conflict."""
    verdicts: dict[UUID, CancelVerdict] = await change_many(
        conn, "cancel", [job_id], actor=as_actor(actor), tenant_id=tenant_id
    )
    if job_id not in verdicts:
        raise NotFound("job", job_id)
    if verdicts[job_id] == "ended":
        raise Conflict(f"Job {job_id} has already finished.", remedy="Only queued and running jobs can be canceled.")
    return verdicts[job_id]
