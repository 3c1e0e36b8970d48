"""What operators order for many jobs: one statement changes them and returns what became of each job found."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import Statement, fetch, retry_deadlocks


class ChangeTerms(TypedDict):
    """By whom. With a tenant, only its jobs are found; the facts are added to the audit rows."""

    actor: Actor
    tenant_id: NotRequired[UUID | None]
    facts: NotRequired[Mapping[str, Any] | None]


async def change_many(
    conn: Connection, query: Statement, job_ids: Sequence[UUID], **terms: Unpack[ChangeTerms]
) -> dict[UUID, Any]:
    """Change these jobs: each that was found, with its verdict."""
    actor = terms["actor"]
    values = {
        "ids": list(job_ids),
        "tenant_id": terms.get("tenant_id"),
        "actor_type": actor.type,
        "actor_id": actor.id,
        "meta": orjson.dumps({**actor.meta, **(terms.get("facts") or {})}).decode(),
    }
    # A run and its child are locked in opposite order when one is canceled while the other ends, and two calls that
    # retry jobs of the same dedupe keys can wait for each other.
    rows = await retry_deadlocks(conn, lambda: fetch(conn, query, **values))
    return {row["id"]: row["verdict"] for row in rows}
