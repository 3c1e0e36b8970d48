"""Lists effects, and finds one."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.engine.effects.effect_call import question_of
from atlas.errors import NotFound
from atlas.models.effects import Effect
from atlas.models.rows import from_row

LIST = statement("engine/effects/sql/list_effects.sql")
COUNT = statement("engine/effects/sql/count_doubts.sql")

# No one settles more of them one by one.
MAX_COUNTED = 10_000


async def list_effects(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    job_id: UUID | None = None,
    provider: str | None = None,
    state: str | None = None,
    after: UUID | None = None,
    limit: int = 50,
) -> list[Effect]:
    """Effects, newest first."""
    values: dict[str, Any] = {"id": id, "tenant_id": tenant_id, "job_id": job_id, "provider": provider, "state": state}
    values |= {"before": after, "limit": min(limit, MAX_PAGE_SIZE)}
    rows = await conn.fetch(LIST.sql, *LIST.bind(values))
    return [_effect(row) for row in rows]


async def find_effect(conn: Queryable, effect_id: UUID, *, tenant_id: UUID | None = None) -> Effect:
    """One effect."""
    effects = await list_effects(conn, id=effect_id, tenant_id=tenant_id, limit=1)
    if not effects:
        raise NotFound("effect", effect_id)
    return effects[0]


async def count_doubts(conn: Queryable, *, tenant_id: UUID | None = None) -> int:
    """How many effects are unknown, 10,000 at most."""
    values = {"tenant_id": tenant_id, "most": MAX_COUNTED}
    return int(await conn.fetchval(COUNT.sql, *COUNT.bind(values)))


def _effect(row: Mapping[str, Any]) -> Effect:
    question = question_of(row["name"], row["key"]) if row["state"] == "unknown" else None
    return from_row(Effect, row, question=question, other_references=row["other_references"])
