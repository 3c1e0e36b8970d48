"""Delete: removes jobs that are not running, with their attempts. Their events stay in the audit log.

Discard: makes a dead letter an ordinary failed job, which retention removes in time.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import Statement, fetch, retry_deadlocks, statement
from atlas.errors import Conflict, NotFound

DELETE = statement("engine/jobs/sql/delete.sql")
DISCARD = statement("engine/jobs/sql/discard.sql")


async def delete(conn: Connection, job_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Remove one job. A running one is a Conflict: cancel it first."""
    verdicts = await delete_many(conn, [job_id], actor=actor, tenant_id=tenant_id)
    if job_id not in verdicts:
        raise NotFound("job", job_id)
    if verdicts[job_id] == "running":
        raise Conflict(f"Job {job_id} is running.", remedy="Cancel it, and delete it once it has stopped.")


async def delete_many(
    conn: Connection,
    job_ids: Sequence[UUID],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[UUID, str]:
    """Remove many, and return for each job found whether it was `deleted` or is `running`.

    The facts are added to their audit rows.
    """
    return await _change(conn, DELETE, job_ids, actor, tenant_id, facts)


async def discard_many(
    conn: Connection,
    job_ids: Sequence[UUID],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[UUID, str]:
    """Take dead letters off their list, and return for each job found `discarded`, or the status that it has."""
    return await _change(conn, DISCARD, job_ids, actor, tenant_id, facts)


async def _change(
    conn: Connection,
    query: Statement,
    job_ids: Sequence[UUID],
    actor: Actor,
    tenant_id: UUID | None,
    facts: Mapping[str, Any] | None,
) -> dict[UUID, str]:
    values = {
        "ids": list(job_ids),
        "tenant_id": tenant_id,
        "actor_type": actor.type,
        "actor_id": actor.id,
        "meta": orjson.dumps({**actor.meta, **(facts or {})}).decode(),
    }
    # A transaction that waits for a job may hold rows that are deleted with it.
    rows = await retry_deadlocks(conn, lambda: fetch(conn, query, **values))
    return {row["id"]: row["verdict"] for row in rows}
