"""Cancel: a queued job ends immediately, a running one is asked to stop. If it ends first, that outcome stands."""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from atlas.actors import Actor, as_actor
from atlas.db.pool import Connection
from atlas.db.statements import statement
from atlas.engine.jobs.actions.change_many import change_many
from atlas.errors import Conflict, NotFound

CANCEL = statement("engine/jobs/actions/sql/cancel.sql")

CancelVerdict = Literal["canceled", "requested", "ended"]


async def cancel(conn: Connection, job_id: UUID, *, actor: Actor | str, tenant_id: UUID | None = None) -> CancelVerdict:
    """Cancel one job: `canceled` immediately, or `requested` of the worker that runs it. An ended job is a Conflict."""
    verdicts = await cancel_many(conn, [job_id], actor=as_actor(actor), tenant_id=tenant_id)
    if job_id not in verdicts:
        raise NotFound("job", job_id)
    if verdicts[job_id] == "ended":
        raise Conflict(f"Job {job_id} has ended already.", remedy="Only queued and running jobs can be canceled.")
    return verdicts[job_id]


async def cancel_many(
    conn: Connection, job_ids: Sequence[UUID], *, actor: Actor, tenant_id: UUID | None
) -> dict[UUID, CancelVerdict]:
    """Cancel many jobs of one tenant, or of all (None), and return for each job found what became of it."""
    return await change_many(conn, CANCEL, job_ids, actor=actor, tenant_id=tenant_id)
