"""What operators order for many jobs: one statement changes them and returns what became of each job found."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch, retry_deadlocks, statement

if TYPE_CHECKING:
    from atlas.models.jobs import BulkVerb

CHANGE = statement("engine/jobs/actions/sql/change_jobs.sql")


async def change_many(
    conn: Connection, action: "BulkVerb", job_ids: Sequence[UUID], *, actor: Actor, tenant_id: UUID | None
) -> dict[UUID, Any]:
    """Change these jobs of one tenant, or of all (None). Returns each that was found, with its verdict.

    The caller has asked whether policy lets a run be retried: see `refused_by_policy`.
    """
    values = {"action": action, "ids": list(job_ids), "tenant_id": tenant_id, **actor.arguments()}
    # A run and its child are locked in opposite order when one is canceled while the other ends, and two calls that
    # retry jobs of the same dedupe keys can wait for each other.
    rows = await retry_deadlocks(conn, lambda: fetch(conn, CHANGE, **values))
    return {row["id"]: row["verdict"] for row in rows}
