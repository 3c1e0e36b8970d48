"""Removes the rows of old seals, and begins an epoch in a restored cluster.

Both need a connection with the rights of the audit log's owner; the role of Atlas's programs lacks them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg

from atlas.actors import Actor
from atlas.audit.forwarding.places import require_forwarded
from atlas.audit.keys import SigningKey
from atlas.audit.sealing.tree_head import named_as_log
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch_value, statement
from atlas.errors import Conflict, FieldError, InvalidInput

CANDIDATE = statement("audit/sql/prune_candidate.sql")
PRUNE = statement("audit/sql/prune.sql")
NEW_EPOCH = statement("audit/sql/new_epoch.sql")
LOCK_TIMEOUT = statement("audit/sql/lock_timeout.sql")

# Everyone who writes waits behind it for as long.
MAX_WAIT = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class PrunedRows:
    """What was removed: the rows of every seal up to one."""

    through_seal: int
    rows: int


async def prunable_seal(conn: Connection, older_than: timedelta) -> int | None:
    """The last seal older than that whose rows may be removed."""
    seal: int | None = await fetch_value(conn, CANDIDATE, older_than=older_than)
    return seal


async def prune(
    conn: Connection,
    *,
    older_than: timedelta,
    actor: Actor,
    key: SigningKey,
    through: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> PrunedRows | None:
    """Remove the rows of seals older than that, or of those of them up to `through`. None: there were none.

    Their personal values go too. Leaves and checkpoints stay, and with them the tree and old proofs. An `AUDIT_PRUNED`
    event records it with `facts`, and with a note that orders it, signed by the key: who can write to the database
    cannot order it. Rows that a forwarder has yet to send are a Conflict.
    """
    try:
        async with conn.transaction():
            newest = await prunable_seal(conn, older_than)
            if newest is None or (through is not None and through > newest):
                return None
            through = newest if through is None else through
            await require_forwarded(conn, through)
            signed = {**(facts or {}), "order": await _order(conn, key, through)}
            rows: int = await fetch_value(conn, PRUNE, through=through, **actor.arguments(**signed))
            return PrunedRows(through, rows)
    except asyncpg.UniqueViolationError as error:
        raise Conflict(
            f"The rows of the seals up to {through} were removed by another process at the same time.",
            remedy="Nothing is left to do; run it again to be sure.",
        ) from error


async def new_epoch(
    conn: Connection,
    *,
    reason: str,
    actor: Actor,
    facts: Mapping[str, Any] | None = None,
    timeout: timedelta = MAX_WAIT,
) -> int:
    """Begin the next epoch in this cluster and return its number. Writers wait briefly while it begins.

    `facts` is what its event says of the key that signs it, its public half and the handover by the key before it, and
    of the end that was lost before it.
    """
    if not reason.strip():
        raise InvalidInput("The order", [FieldError("reason", "is empty")])
    try:
        async with conn.transaction():
            await fetch_value(conn, LOCK_TIMEOUT, milliseconds=str(round(timeout / timedelta(milliseconds=1))))
            begun: int = await fetch_value(conn, NEW_EPOCH, reason=reason, **actor.arguments(**(facts or {})))
            return begun
    except asyncpg.LockNotAvailableError as error:
        raise Conflict(
            "A transaction that writes to the audit log has been open for too long; no epoch was begun.",
            remedy="Stop the workers, or end that transaction, and run it again.",
        ) from error
    except asyncpg.ObjectNotInPrerequisiteStateError as error:
        raise Conflict(
            f"No epoch was begun: {error}.",
            remedy="Let a scheduler or `atlas up` run, or run `atlas audit verify` where the key is; each seals it.",
        ) from error


async def _order(conn: Connection, key: SigningKey, through: int) -> str:
    seal = await prisma_on(conn).auditseal.find_unique_or_raise({"n": through})
    named = await named_as_log(conn, key)
    return named.order_prune(through, seal.size, seal.root.decode())
