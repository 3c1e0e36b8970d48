"""Cancel: a queued job ends at once, a running one is asked to stop. If it ends first, that outcome stands."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch, retry_deadlocks, statement
from atlas.errors import Conflict, NotFound

CANCEL = statement("engine/jobs/sql/cancel.sql")

CancelVerdict = Literal["canceled", "requested", "ended"]


async def cancel(conn: Connection, job_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> CancelVerdict:
    """Cancel one job: `canceled` at once, or `requested` of the worker that runs it. An ended job is a Conflict."""
    verdicts = await cancel_many(conn, [job_id], actor=actor, tenant_id=tenant_id)
    if job_id not in verdicts:
        raise NotFound("job", job_id)
    if verdicts[job_id] == "ended":
        raise Conflict(f"Job {job_id} has ended already.", remedy="Only queued and running jobs can be canceled.")
    return verdicts[job_id]


async def cancel_many(
    conn: Connection,
    job_ids: Sequence[UUID],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[UUID, CancelVerdict]:
    """Cancel many, and return for each job found what became of it. With `tenant_id`, only that tenant's are found.

    The facts are added to their audit rows.
    """
    values = {
        "ids": list(job_ids),
        "tenant_id": tenant_id,
        "actor_type": actor.type,
        "actor_id": actor.id,
        "meta": orjson.dumps({**actor.meta, **(facts or {})}).decode(),
    }
    # A run and its child are locked in opposite order when one is canceled while the other ends.
    rows = await retry_deadlocks(conn, lambda: fetch(conn, CANCEL, **values))
    return {row["id"]: row["verdict"] for row in rows}
