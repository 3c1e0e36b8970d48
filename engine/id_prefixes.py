"""Ids by their beginning: the ids of a kind of row between two ids."""

from collections.abc import Collection
from typing import Literal, get_args
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement

IDS = statement("engine/sql/ids_between.sql")

IdKind = Literal[
    "any", "job", "group", "run", "approval", "effect", "trigger", "webhook", "hook", "host", "server instance", "token"
]

KINDS = tuple(kind for kind in get_args(IdKind) if kind != "any")

# Of those that begin alike, how many are named.
MAX_NAMED = 8


def prefix_bounds(prefix: str) -> tuple[UUID, UUID]:
    """The lowest and the highest id that begin with these hexadecimal digits, with or without dashes."""
    digits = prefix.replace("-", "").lower()
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


async def ids_between(
    conn: Connection,
    kind: IdKind,
    low: UUID,
    high: UUID,
    *,
    tenant_id: UUID | None = None,
    among: Collection[str] = KINDS,
) -> list[UUID]:
    """The ids of a kind from `low` to `high`, in their order: those that an error names and one more.

    A kind that is not `among` these has none, and `any` looks through these alone.
    """
    kinds = [allowed for allowed in among if kind in (allowed, "any")]
    rows = await fetch(conn, IDS, kinds=kinds, low=low, high=high, tenant_id=tenant_id, most=MAX_NAMED + 1)
    return [row["id"] for row in rows]
